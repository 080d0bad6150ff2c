-- Whether gateways that provision themselves may create agents of a tenant.
ALTER TABLE tenants ADD COLUMN creates_agents INTEGER NOT NULL DEFAULT 1;
