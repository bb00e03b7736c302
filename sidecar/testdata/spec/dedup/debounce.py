job_id = await queue.add(
"myapp.tasks.rebuild_search",
kwargs={"scope": "products", "version": 42},
delay=30.0,
deduplication={
"id": "search:products",
"ttl": 30.0,
"extend": True,
"replace": True,
},
)
