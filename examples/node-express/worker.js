// The worker of the shop: it needs the job server's address, and nothing else.
const workers = `${process.env.OUTRIDER_URL ?? "http://127.0.0.1:8080"}/ojs/v1/workers`;

async function post(verb, body) {
  const answer = await fetch(`${workers}/${verb}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${verb}: ${await answer.text()}`);
  return answer.json();
}

const handlers = {
  "order.confirm": async (order, email) => {
    console.log(`order ${order}: mail to ${email}`);
    return { mailed: email };
  },
};

for (;;) {
  // Wait up to 10 s for a job. If we die, it is another's after a minute.
  const { jobs } = await post("fetch", {
    queues: ["default"], worker_id: `node-${process.pid}`, block_ms: 10_000, visibility_timeout_ms: 60_000,
  });
  for (const job of jobs) {
    const claim = { job_id: job.id, lease_token: job.lease_token };
    let end;
    try {
      end = ["ack", { ...claim, result: await handlers[job.type](...job.args) }];
    } catch (err) { // it is tried again, as its retry policy says
      end = ["nack", { ...claim, error: { type: err.name, message: err.message } }];
    }
    await post(...end);
  }
}
