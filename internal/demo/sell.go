package demo

import (
	"context"
	"fmt"
)

// customer of an order. There are a few who order often.
func customer(id int64) string { return fmt.Sprintf("customer%d@example.com", id%23) }

// row of the outbox, as the app writes it.
type row struct{ kind, args, options string }

// rowsOf are the jobs that an order of the living shop makes necessary.
func rowsOf(id int64) []row {
	payment := list(map[string]any{"order": id, "cents": 990 + id*37%9000, "currency": "EUR"})
	rows := []row{
		{orderJob, string(list(&order{ID: id, Email: customer(id)})), fmt.Sprintf(`{"tags":["checkout"],"meta":{"tenant_id":"shop-%d"}}`, id%3+1)},
		{"payment.charge", string(payment), fmt.Sprintf(`{"queue":"payments","priority":10,"tags":["checkout","money"],"meta":{"tenant_id":"shop-%d"},
			"unique":{"keys":["type","args"],"args_keys":["order"],"on_conflict":"reject"},
			"retry":{"max_attempts":4,"initial_interval":"PT3S","on_exhaustion":"dead_letter"}}`, id%3+1)},
		{"email.send", string(list(map[string]any{"to": customer(id), "template": "thank-you", "order": id})), `{"queue":"mail","delay":"PT2S","tags":["checkout"]}`},
	}
	if id%8 == 0 {
		rows = append(rows, row{"order.fulfil", "[]", fulfilment(id)})
	}
	return rows
}

// fulfilment is a workflow that is started by a row: pick side by side, pack, ship, tell.
func fulfilment(id int64) string {
	return fmt.Sprintf(`{"workflow":{"type":"chain","name":"fulfil-%[1]d","steps":[
		{"type":"group","name":"pick","jobs":[{"type":"order.pick","args":[%[1]d,"pens"]},{"type":"order.pick","args":[%[1]d,"ink"]},{"type":"order.pick","args":[%[1]d,"paper"]}]},
		{"type":"order.pack","args":[%[1]d]},
		{"type":"order.ship","args":[%[1]d]},
		{"type":"email.send","args":[{"to":%[2]q,"template":"on-its-way","order":%[1]d}],"options":{"queue":"mail"}}]}}`, id, customer(id))
}

// sell writes an order and the rows of its jobs in one transaction. Some customers change
// their minds: nothing is left of these.
func (s *demoShop) sell(ctx context.Context, id int64) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, email) VALUES (?, ?)`, id, customer(id)); err != nil {
		return err
	}
	for _, r := range rowsOf(id) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES (?, ?, ?)`, r.kind, r.args, r.options); err != nil {
			return err
		}
	}
	if id%11 == 0 {
		return tx.Rollback()
	}
	return tx.Commit()
}

// spoil writes a row that can never become a job: its args are no array.
func (s *demoShop) spoil(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', '{"to":"ada@example.com"}')`)
	return err
}

// sold is what a job of a payment is given.
type sold struct {
	Order    int64  `json:"order"`
	Cents    int64  `json:"cents"`
	Currency string `json:"currency"`
}
