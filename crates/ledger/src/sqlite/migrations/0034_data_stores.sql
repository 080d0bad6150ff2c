-- Where a tenant keeps its data: `house`, `sqlite:FILE`, `custom:NAME` or a URL. `store` beside it says the same
-- for skills. The secrets of the two endpoints are in `tenant_secrets`, with names below `skill_store/` and `data_store/`.
ALTER TABLE skill_settings ADD COLUMN data_store TEXT NOT NULL DEFAULT 'house';
