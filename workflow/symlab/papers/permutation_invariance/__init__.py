"""stub"""
from symlab.papers.card import Paper
PERMUTATION_INVARIANCE = Paper("permutation-invariance","permutation","a","b","t","w","l",())
