"""Phrases that the reasons of several claims share."""

SINCE = "Judged so since 28 November 2026, after values were seen"
