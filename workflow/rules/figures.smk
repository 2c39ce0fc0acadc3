rule figure:
    input:
        tables=figure_tables,
    output:
        png=f"{RESULTS}/{{study}}/figures/figure_{{figure}}.png",
        pdf=f"{RESULTS}/{{study}}/figures/figure_{{figure}}.pdf",
    log:
        f"{RESULTS}/logs/figure/{{study}}/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/figure/{{study}}/{{figure}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        style=PROJECT.style,
        library=library_of_figure,
        origins=origins,
    message:
        "Figure {wildcards.figure} of {wildcards.study}"
    script:
        "../scripts/figure.py"


rule figures:
    input:
        figure_paths(),
    localrule: True
