rule students:
    output:
        students=f"{RESULTS}/{{study}}/students/{{role}}/{{block}}.safetensors",
    log:
        f"{RESULTS}/logs/students/{{study}}/{{role}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/students/{{study}}/{{role}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 240 * attempt,
    params:
        spec=spec_of_students,
        checkpoints=lambda wildcards, output: checkpoints_of_students(output.students),
        library=code_of("students.py"),
        origins=origins,
    message:
        "Train students of {wildcards.study}: {wildcards.role}, grid {wildcards.block}"
    script:
        "../scripts/students.py"


rule student_runs:
    input:
        students=students_of_role,
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/{{role}}_runs.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/student_runs/{{study}}/{{role}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/student_runs/{{study}}/{{role}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        grids=grids_of_role,
        library=code_of("student_runs.py"),
        origins=origins,
    message:
        "Losses and sparsity of students of {wildcards.study}: {wildcards.role}"
    script:
        "../scripts/student_runs.py"


rule student_barriers:
    input:
        students=students_of_role,
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/{{role}}_barriers.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/student_barriers/{{study}}/{{role}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/student_barriers/{{study}}/{{role}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        grids=grids_of_role,
        library=code_of("student_barriers.py"),
        origins=origins,
    message:
        "Barriers between students of {wildcards.study}: {wildcards.role}"
    script:
        "../scripts/student_barriers.py"


rule column_entries:
    input:
        students=lambda wildcards: students_of_role(wildcards, "column"),
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/column_entries.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/column_entries/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/column_entries/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        library=code_of("column_entries.py"),
        origins=origins,
    message:
        "How students of {wildcards.study} split one teacher neuron"
    script:
        "../scripts/column_entries.py"


rule overlap:
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/overlap.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/overlap/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/overlap/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        settings=analysis("teacher_student.overlap"),
        library=code_of("overlap.py"),
        origins=origins,
    message:
        "Overlap of types in {wildcards.study}"
    script:
        "../scripts/overlap.py"
