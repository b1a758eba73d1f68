"""Trainings and preparations on a Spark cluster; the only folder that imports pyspark.

    from trainer.spark import run
    run(spark, ["--preset", "images", "--data.dir", "/mnt/images"], num_proc=8)

pyspark and its Java belong to the cluster, not to the trainer's environment, so they are imported
only when something runs.
"""
