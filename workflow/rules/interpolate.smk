rule interpolate:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
        permutations=permutations_if_aligned,
    output:
        curves=ensure(f"{RESULTS}/{{study}}/{{variant}}/curves/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/interpolate/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/interpolate/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
        gpu=GPU,
    params:
        path=analysis("interpolation"),
        library=code_of("interpolate.py"),
        origins=origins,
    message:
        "Interpolate pairs of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/interpolate.py"


rule chords:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
    output:
        chord_deviation=ensure(f"{RESULTS}/{{study}}/{{variant}}/chord_deviation/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/chords/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/chords/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
        gpu=GPU,
    params:
        settings=analysis("theory"),
        library=code_of("chords.py"),
        origins=origins,
    message:
        "Chord deviations of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/chords.py"
