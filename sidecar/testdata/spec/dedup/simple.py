job_id = await queue.add(
"myapp.tasks.sync_customer",
kwargs={"customer_id": "cus_123"},
deduplication={"id": "customer:cus_123"},
)
