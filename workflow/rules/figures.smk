"""One job a study: its figures, each as SVG and PDF, and what is said of it for both reports."""

MODULES = {name: figure.module for name, figure in FIGURES.items()}

for each in STUDIES.values():
    if each.figures:

        rule:
            name:
                f"figures_{each.name}"
            input:
                tables_of(each.name),
            output:
                # Figures whose own code is as it was stay.
                svg=[update(in_report(each.name, figure)) for figure in each.figures],
                pdf=[update(files.figure(RESULTS, each.name, figure, ".pdf")) for figure in each.figures],
                texts=[update(files.figure(RESULTS, each.name, figure, ".json")) for figure in each.figures],
                captions=[update(files.figure(RESULTS, each.name, figure, ".rst")) for figure in each.figures],
            log:
                log_of("figures", each.name),
            benchmark:
                benchmark_of("figures", each.name)
            group:
                "tables"
            conda:
                ENVIRONMENT
            threads: 1
            resources:
                mem_mb=retried(6000),
                runtime=retried(30),
            params:
                study=each.name,
                style=PROJECT.style.spec(),
                code={
                    figure: digest_of_figure_code("scripts.figures", FIGURES[figure].module, MODULES)
                    for figure in each.figures
                },
            message:
                f"Figures of {each.name}"
            script:
                "../scripts/figures.py"


rule figures:
    input:
        [figures_of(study) for study in STUDIES],
    localrule: True
