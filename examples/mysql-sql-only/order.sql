-- An order and its job, in one transaction.
START TRANSACTION;
INSERT INTO orders (email) VALUES ('ada@example.com');
INSERT INTO ojs_outbox (job_type, job_args) VALUES ('order.confirm', JSON_ARRAY(LAST_INSERT_ID(), 'ada@example.com'));
COMMIT;

-- The same, and the app thinks better of it: no order, and no job.
START TRANSACTION;
INSERT INTO orders (email) VALUES ('bob@example.com');
INSERT INTO ojs_outbox (job_type, job_args) VALUES ('order.confirm', JSON_ARRAY(LAST_INSERT_ID(), 'bob@example.com'));
ROLLBACK;
