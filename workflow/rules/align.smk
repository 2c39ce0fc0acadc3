rule moments:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
    output:
        moments=f"{RESULTS}/{{study}}/{{variant}}/moments/{{block}}.safetensors",
    log:
        f"{RESULTS}/logs/moments/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/moments/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
        gpu=GPU,
    params:
        library=code_of("moments.py"),
        origins=origins,
    message:
        "Correlate activations of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/moments.py"


rule match:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
        moments=rules.moments.output.moments,
    output:
        permutations=f"{RESULTS}/{{study}}/{{variant}}/permutations/{{block}}.safetensors",
        matching=ensure(f"{RESULTS}/{{study}}/{{variant}}/matching/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/match/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/match/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        matching=analysis("matching"),
        library=code_of("match.py"),
        origins=origins,
    message:
        "Match neurons of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/match.py"
