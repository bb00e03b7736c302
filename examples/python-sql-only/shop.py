"""An app and its worker with nothing but Python: an order and its job are one
transaction, and the worker speaks HTTP.

    python3 shop.py [--db DSN] order EMAIL     DSN: a file of SQLite, or postgres://… (needs psycopg)
    python3 shop.py [--server URL] work
"""
import argparse
import json
import sqlite3
import urllib.request


def connect(dsn):
    """The app's own database, and how it writes a placeholder."""
    if dsn.startswith("postgres"):
        import psycopg
        return psycopg.connect(dsn), "%s"
    db = sqlite3.connect(dsn)
    db.execute("PRAGMA journal_mode = WAL")
    return db, "?"


def order(dsn, email):
    db, p = connect(dsn)
    key = "INTEGER" if p == "?" else "BIGINT GENERATED ALWAYS AS IDENTITY"
    db.execute(f"CREATE TABLE IF NOT EXISTS orders (id {key} PRIMARY KEY, email TEXT NOT NULL)")
    db.commit()

    # Both drivers begin a transaction at the first INSERT.
    [(number,)] = db.execute(f"INSERT INTO orders (email) VALUES ({p}) RETURNING id", (email,)).fetchall()
    db.execute(f"INSERT INTO ojs_outbox (job_type, job_args) VALUES ('order.confirm', {p})",
               (json.dumps([number, email]),))
    if "@" not in email:
        db.rollback()
        raise SystemExit(f"{email} is no address: no order, and no job")
    db.commit()
    print(f"order {number} for {email}, and its job")


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def work(server):
    workers = server + "/ojs/v1/workers/"
    while True:
        # Wait up to 10 s for a job. If we die, it is another's after a minute.
        fetched = post(workers + "fetch", {"queues": ["default"], "worker_id": "shop.py",
                                           "block_ms": 10000, "visibility_timeout_ms": 60000})
        for job in fetched["jobs"]:
            claim = {"job_id": job["id"], "lease_token": job["lease_token"]}
            try:
                result = confirm(*job["args"])
            except Exception as e:  # it is tried again, as its retry policy says
                post(workers + "nack", claim | {"error": {"type": type(e).__name__, "message": str(e)}})
            else:
                post(workers + "ack", claim | {"result": result})


def confirm(number, email):
    print(f"order {number}: mail to {email}", flush=True)
    return {"mailed": email}


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--db", default="shop.db")
    cli.add_argument("--server", default="http://127.0.0.1:8080")
    cli.add_argument("what", choices=["order", "work"])
    cli.add_argument("email", nargs="?", default="ada@example.com")
    said = cli.parse_args()
    if said.what == "order":
        order(said.db, said.email)
    else:
        work(said.server)
