"""MIMIC-IV records of sepsis as demonstrations (paper, section 5.1).

DuckDB reads the files as distributed; each step below is one SQL file whose result is kept as
Parquet, so that an interrupted build goes on where it stopped.

    sources.py      the tables of MIMIC-IV: where they are, which columns they must have
    postgres.py     the same tables from a PostgreSQL server, copied out once
    definitions.py  the CSV tables beside this file: item ids, units, limits, windows
    pipeline.py     the steps, run and cached
    cache.py        the folder of their results: closed to others, cleared of what was left
    episodes.py     arrays per stay: states, treatments, outcome
    preparation.py  bins, imputation and scaling, fitted on the training part
    quality.py      the report: cohort flow, missingness, actions, outcome by SOFA
    build.py        all of it: a folder with train, valid and test
"""
