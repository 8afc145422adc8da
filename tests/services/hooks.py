"""The configuration of gunicorn: what it calls in each worker, after the fork."""


def post_worker_init(worker):
    import app

    app.start()
