"""The example site: completions and their log, nothing else."""
