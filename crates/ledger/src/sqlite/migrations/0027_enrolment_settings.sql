-- Settings that the gateway gets which redeems a token, as JSON. NULL: none.
ALTER TABLE enroll_tokens ADD COLUMN setup TEXT;
