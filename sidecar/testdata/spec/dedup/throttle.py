job_id = await queue.add(
"myapp.tasks.refresh_dashboard",
deduplication={"id": "dashboard:global", "ttl": 10.0},
)
