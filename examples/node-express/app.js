// A web shop on Express and PostgreSQL. POST /orders writes an order and its job
// in one transaction: what is sold out leaves neither behind.
import express from "express";
import pg from "pg";

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/shop" });

await db.query(`
  CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS stock  (item TEXT PRIMARY KEY, amount INTEGER NOT NULL);
  INSERT INTO stock VALUES ('pen', 2) ON CONFLICT DO NOTHING`);

// transaction runs fn between BEGIN and COMMIT, and rolls back what it throws in.
async function transaction(fn) {
  const tx = await db.connect();
  try {
    await tx.query("BEGIN");
    const result = await fn(tx);
    await tx.query("COMMIT");
    return result;
  } catch (err) {
    await tx.query("ROLLBACK");
    throw err;
  } finally {
    tx.release();
  }
}

const app = express();
app.use(express.json());

app.post("/orders", async (req, res) => {
  const email = req.body?.email;
  if (!email) return res.status(400).json({ error: "an order needs an email" });
  const order = await transaction(async (tx) => {
    const { rows: [{ id }] } = await tx.query("INSERT INTO orders (email) VALUES ($1) RETURNING id", [email]);
    await tx.query("INSERT INTO ojs_outbox (job_type, job_args) VALUES ('order.confirm', $1)",
      [JSON.stringify([Number(id), email])]);
    const { rows: [{ amount }] } = await tx.query("UPDATE stock SET amount = amount - 1 RETURNING amount");
    if (amount < 0) throw Object.assign(new Error("sold out: no order, and no job"), { status: 409 });
    return Number(id);
  });
  res.status(201).json({ order });
});

app.use((err, req, res, next) => res.status(err.status ?? 500).json({ error: err.message }));

const server = app.listen(process.env.PORT ?? 3000, "127.0.0.1", () => {
  console.log(`the shop is open on http://127.0.0.1:${server.address().port}`);
});
