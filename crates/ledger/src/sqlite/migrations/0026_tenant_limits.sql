-- Limits that the operator set for single tenants. A limit without a row has the server's default.
CREATE TABLE tenant_limits (
  tenant TEXT NOT NULL REFERENCES tenants (id),
  name   TEXT NOT NULL,
  value  INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
