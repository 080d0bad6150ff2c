//! SQL that counts what tenants store: the recount of everything, and the triggers for single changes.

/// All sums, counted from the rows: at the first start with sums, and to check them.
pub(super) const RECOUNT: &str = "
    WITH agents AS (SELECT id, tenant FROM instances UNION ALL SELECT id, tenant FROM former_agents)
    SELECT tenant, sum(bytes), sum(entries), sum(actions), sum(fires), sum(media), sum(data) FROM (
      SELECT agents.tenant AS tenant,
        sum(CASE WHEN fate IS NULL OR fate = 'dead' THEN size + 512 ELSE 0 END) AS bytes,
        count(*) AS entries, 0 AS actions, 0 AS fires, 0 AS media, 0 AS data
      FROM entries JOIN agents ON agents.id = entries.instance GROUP BY 1
      UNION ALL
      SELECT agents.tenant, 0, 0, count(*), 0, 0, 0 FROM actions JOIN agents ON agents.id = actions.instance GROUP BY 1
      UNION ALL
      SELECT agents.tenant, 0, 0, 0, count(*), 0, 0 FROM fires JOIN agents ON agents.id = fires.instance GROUP BY 1
      UNION ALL
      SELECT tenant, sum(512 + coalesce(octet_length(body), 0) + coalesce(octet_length(answer), 0)), 0, 0, 0, 0, 0
      FROM receipts GROUP BY 1
      UNION ALL
      SELECT receipts.tenant, sum(256 + octet_length(text)), 0, 0, 0, 0, 0
      FROM replies JOIN receipts ON receipts.key = replies.receipt GROUP BY 1
      UNION ALL
      SELECT tenant, sum(512 + coalesce(octet_length(answer), 0)), 0, 0, 0, 0, 0 FROM exchanges GROUP BY 1
      UNION ALL
      SELECT agents.tenant, sum(rooms.bytes), 0, 0, 0, 0, 0 FROM rooms JOIN agents ON agents.id = rooms.instance GROUP BY 1
      UNION ALL
      SELECT tenant, 256 * count(*), 0, 0, 0, 0, 0 FROM capability_uses GROUP BY 1
      UNION ALL
      SELECT agents.tenant, sum(256 + octet_length(options)), 0, 0, 0, 0, 0
      FROM prompts JOIN agents ON agents.id = prompts.instance GROUP BY 1
      UNION ALL
      SELECT agents.tenant, sum(256 + octet_length(name)), 0, 0, 0, 0, 0
      FROM made_threads JOIN agents ON agents.id = made_threads.instance GROUP BY 1
      UNION ALL
      SELECT agents.tenant, sum(256 + octet_length(manifest)), 0, 0, 0, 0, 0
      FROM command_manifests JOIN agents ON agents.id = command_manifests.instance GROUP BY 1
      UNION ALL
      SELECT tenant, sum(512 + octet_length(summary) + coalesce(octet_length(metadata), 0)), 0, 0, 0, 0, 0
      FROM skills GROUP BY 1
      UNION ALL
      SELECT tenant, sum(256 + octet_length(body)), 0, 0, 0, 0, 0 FROM skill_bodies GROUP BY 1
      UNION ALL
      SELECT tenant, 256 * count(*), 0, 0, 0, 0, 0 FROM skill_history GROUP BY 1
      UNION ALL
      SELECT tenant, 0, 0, 0, 0, sum(size), 0 FROM media GROUP BY 1
      UNION ALL
      SELECT tenant, 0, 0, 0, 0, 0,
        sum(512 + octet_length(content) + coalesce(octet_length(tags), 0) + coalesce(octet_length(attributes), 0)
          + coalesce(octet_length(metadata), 0))
      FROM data GROUP BY 1
    )
    GROUP BY tenant";

/// The triggers belong to the writer's connection, so only its changes are counted. An entry counts while its
/// event is stored. Every statement that changes its fate also sets `counted`, except its acknowledgement,
/// which is counted separately. Replies are subtracted before their receipt is deleted, because only the
/// receipt names their tenant.
pub(super) const TRIGGERS: &str = "
    CREATE TEMP TRIGGER usage_agent AFTER INSERT ON main.instances BEGIN
      SELECT agent_of(NEW.id, NEW.tenant);
    END;

    CREATE TEMP TRIGGER usage_entry_ended AFTER UPDATE OF counted ON main.entries
      WHEN (OLD.fate IS NULL OR OLD.fate = 'dead') AND NEW.fate <> 'dead' BEGIN
      SELECT agent_storage(OLD.instance, -OLD.size - 512, 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_entry_gone AFTER DELETE ON main.entries BEGIN
      SELECT agent_storage(OLD.instance,
        CASE WHEN OLD.fate IS NULL OR OLD.fate = 'dead' THEN -OLD.size - 512 ELSE 0 END, -1, 0, 0);
    END;

    CREATE TEMP TRIGGER usage_action_gone AFTER DELETE ON main.actions BEGIN
      SELECT agent_storage(OLD.instance, 0, 0, -1, 0);
    END;

    CREATE TEMP TRIGGER usage_fire_gone AFTER DELETE ON main.fires BEGIN
      SELECT agent_storage(OLD.instance, 0, 0, 0, -1);
    END;

    CREATE TEMP TRIGGER usage_receipt_changed AFTER UPDATE OF body, answer ON main.receipts BEGIN
      SELECT tenant_storage(NEW.tenant,
        coalesce(octet_length(NEW.body), 0) + coalesce(octet_length(NEW.answer), 0)
        - coalesce(octet_length(OLD.body), 0) - coalesce(octet_length(OLD.answer), 0));
    END;
    CREATE TEMP TRIGGER usage_receipt_gone BEFORE DELETE ON main.receipts BEGIN
      SELECT tenant_storage(OLD.tenant,
        -512 - coalesce(octet_length(OLD.body), 0) - coalesce(octet_length(OLD.answer), 0)
        - coalesce((SELECT sum(256 + octet_length(text)) FROM main.replies WHERE receipt = OLD.key), 0));
    END;

    CREATE TEMP TRIGGER usage_reply AFTER INSERT ON main.replies BEGIN
      SELECT tenant_storage((SELECT tenant FROM main.receipts WHERE key = NEW.receipt), 256 + octet_length(NEW.text));
    END;
    CREATE TEMP TRIGGER usage_reply_changed AFTER UPDATE OF text ON main.replies BEGIN
      SELECT tenant_storage((SELECT tenant FROM main.receipts WHERE key = NEW.receipt),
        octet_length(NEW.text) - octet_length(OLD.text));
    END;
    CREATE TEMP TRIGGER usage_reply_gone AFTER DELETE ON main.replies BEGIN
      SELECT tenant_storage((SELECT tenant FROM main.receipts WHERE key = OLD.receipt),
        -256 - octet_length(OLD.text));
    END;

    CREATE TEMP TRIGGER usage_exchange_changed AFTER UPDATE OF answer ON main.exchanges BEGIN
      SELECT tenant_storage(NEW.tenant,
        coalesce(octet_length(NEW.answer), 0) - coalesce(octet_length(OLD.answer), 0));
    END;
    CREATE TEMP TRIGGER usage_exchange_gone AFTER DELETE ON main.exchanges BEGIN
      SELECT tenant_storage(OLD.tenant, -512 - coalesce(octet_length(OLD.answer), 0));
    END;

    CREATE TEMP TRIGGER usage_room AFTER UPDATE OF bytes ON main.rooms BEGIN
      SELECT agent_storage(NEW.instance, NEW.bytes - OLD.bytes, 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_room_gone AFTER DELETE ON main.rooms BEGIN
      SELECT agent_storage(OLD.instance, -OLD.bytes, 0, 0, 0);
    END;

    CREATE TEMP TRIGGER usage_capability AFTER INSERT ON main.capability_uses BEGIN
      SELECT tenant_storage(NEW.tenant, 256);
    END;
    CREATE TEMP TRIGGER usage_capability_gone AFTER DELETE ON main.capability_uses BEGIN
      SELECT tenant_storage(OLD.tenant, -256);
    END;

    CREATE TEMP TRIGGER usage_prompt AFTER INSERT ON main.prompts BEGIN
      SELECT agent_storage(NEW.instance, 256 + octet_length(NEW.options), 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_prompt_gone AFTER DELETE ON main.prompts BEGIN
      SELECT agent_storage(OLD.instance, -256 - octet_length(OLD.options), 0, 0, 0);
    END;

    CREATE TEMP TRIGGER usage_thread AFTER INSERT ON main.made_threads BEGIN
      SELECT agent_storage(NEW.instance, 256 + octet_length(NEW.name), 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_thread_changed AFTER UPDATE OF name ON main.made_threads BEGIN
      SELECT agent_storage(NEW.instance, octet_length(NEW.name) - octet_length(OLD.name), 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_thread_gone AFTER DELETE ON main.made_threads BEGIN
      SELECT agent_storage(OLD.instance, -256 - octet_length(OLD.name), 0, 0, 0);
    END;

    CREATE TEMP TRIGGER usage_manifest AFTER INSERT ON main.command_manifests BEGIN
      SELECT agent_storage(NEW.instance, 256 + octet_length(NEW.manifest), 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_manifest_changed AFTER UPDATE OF manifest ON main.command_manifests BEGIN
      SELECT agent_storage(NEW.instance, octet_length(NEW.manifest) - octet_length(OLD.manifest), 0, 0, 0);
    END;
    CREATE TEMP TRIGGER usage_manifest_gone AFTER DELETE ON main.command_manifests BEGIN
      SELECT agent_storage(OLD.instance, -256 - octet_length(OLD.manifest), 0, 0, 0);
    END;

    CREATE TEMP TRIGGER usage_skill AFTER INSERT ON main.skills BEGIN
      SELECT tenant_storage(NEW.tenant,
        512 + octet_length(NEW.summary) + coalesce(octet_length(NEW.metadata), 0));
    END;
    CREATE TEMP TRIGGER usage_skill_changed AFTER UPDATE OF summary, metadata ON main.skills BEGIN
      SELECT tenant_storage(NEW.tenant,
        octet_length(NEW.summary) + coalesce(octet_length(NEW.metadata), 0)
        - octet_length(OLD.summary) - coalesce(octet_length(OLD.metadata), 0));
    END;
    CREATE TEMP TRIGGER usage_skill_gone AFTER DELETE ON main.skills BEGIN
      SELECT tenant_storage(OLD.tenant,
        -512 - octet_length(OLD.summary) - coalesce(octet_length(OLD.metadata), 0));
    END;

    CREATE TEMP TRIGGER usage_skill_body AFTER INSERT ON main.skill_bodies BEGIN
      SELECT tenant_storage(NEW.tenant, 256 + octet_length(NEW.body));
    END;
    CREATE TEMP TRIGGER usage_skill_body_gone AFTER DELETE ON main.skill_bodies BEGIN
      SELECT tenant_storage(OLD.tenant, -256 - octet_length(OLD.body));
    END;

    CREATE TEMP TRIGGER usage_skill_history AFTER INSERT ON main.skill_history BEGIN
      SELECT tenant_storage(NEW.tenant, 256);
    END;
    CREATE TEMP TRIGGER usage_skill_history_gone AFTER DELETE ON main.skill_history BEGIN
      SELECT tenant_storage(OLD.tenant, -256);
    END;

    CREATE TEMP TRIGGER usage_media_gone AFTER DELETE ON main.media BEGIN
      SELECT media_storage(OLD.tenant, OLD.instance, -OLD.size);
    END;

    CREATE TEMP TRIGGER usage_data_gone AFTER DELETE ON main.data BEGIN
      SELECT data_storage(OLD.tenant,
        -512 - octet_length(OLD.content) - coalesce(octet_length(OLD.tags), 0)
        - coalesce(octet_length(OLD.attributes), 0) - coalesce(octet_length(OLD.metadata), 0));
    END;";
