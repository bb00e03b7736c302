-- The app's own tables. The outbox stands beside them: outrider outbox init DSN
CREATE TABLE IF NOT EXISTS orders (
  id    BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email VARCHAR(255) NOT NULL
) ENGINE = InnoDB;
