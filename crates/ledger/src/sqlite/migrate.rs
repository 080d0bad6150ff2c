//! Migrations: forward-only steps that run at start. A schema newer than this program is refused with an
//! error.

use rusqlite::{Connection, OptionalExtension};

use crate::Fault;

/// In order. A step that was released is never changed; a new step follows it.
const STEPS: &[&str] = &[
    include_str!("migrations/0001_house.sql"),
    include_str!("migrations/0002_tokens.sql"),
    include_str!("migrations/0003_signing_keys.sql"),
    include_str!("migrations/0004_arms.sql"),
    include_str!("migrations/0005_receipts.sql"),
    include_str!("migrations/0006_connectors.sql"),
    include_str!("migrations/0007_alarms.sql"),
    include_str!("migrations/0008_audit_and_edits.sql"),
    include_str!("migrations/0009_generation_pins.sql"),
    include_str!("migrations/0010_hold_back.sql"),
    include_str!("migrations/0011_streamed_answers.sql"),
    include_str!("migrations/0012_refresh_lines.sql"),
    include_str!("migrations/0013_invitations.sql"),
    include_str!("migrations/0014_delivered_lines.sql"),
    include_str!("migrations/0015_ledger_time.sql"),
    include_str!("migrations/0016_access.sql"),
    include_str!("migrations/0017_senders.sql"),
    include_str!("migrations/0018_tenant_usage.sql"),
    include_str!("migrations/0019_enrolment.sql"),
    include_str!("migrations/0020_relevance.sql"),
    include_str!("migrations/0021_bindings_and_claims.sql"),
    include_str!("migrations/0022_gateway_settings.sql"),
    include_str!("migrations/0023_media.sql"),
    include_str!("migrations/0024_prompts.sql"),
    include_str!("migrations/0025_lifecycle.sql"),
    include_str!("migrations/0026_tenant_limits.sql"),
    include_str!("migrations/0027_enrolment_settings.sql"),
    include_str!("migrations/0028_provisioning_switch.sql"),
    include_str!("migrations/0029_fire_numbers.sql"),
    include_str!("migrations/0030_skills.sql"),
    include_str!("migrations/0031_skill_approval.sql"),
    include_str!("migrations/0032_data.sql"),
    include_str!("migrations/0033_event_feeds.sql"),
    include_str!("migrations/0034_data_stores.sql"),
    include_str!("migrations/0035_registered_commands.sql"),
    include_str!("migrations/0036_person_chats.sql"),
    include_str!("migrations/0037_skill_runs.sql"),
    include_str!("migrations/0038_links_per_bot.sql"),
    include_str!("migrations/0039_run_causes.sql"),
];

pub(super) fn run(db: &mut Connection) -> Result<(), Fault> {
    // With foreign keys on, recreating a table under its old name would delete the rows that refer to it. The
    // references are checked before each step is committed.
    db.pragma_update(None, "foreign_keys", false)?;
    let ran = run_steps(db, STEPS);
    db.pragma_update(None, "foreign_keys", true)?;
    ran
}

fn run_steps(db: &mut Connection, steps: &[&str]) -> Result<(), Fault> {
    let known = steps.len() as i64;
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(Fault::Newer { found, known });
    }
    for (step, sql) in (1..).zip(steps).skip(usize::try_from(found).unwrap_or(0)) {
        let together = db.transaction()?;
        together.execute_batch(sql)?;
        let dangling: i64 =
            together.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))?;
        if dangling > 0 {
            return Err(Fault::Storage(format!(
                "migration {step} leaves {dangling} rows with broken references"
            )));
        }
        together.execute(
            "INSERT INTO facts (name, value) VALUES (?1, ?2)",
            (format!("migration.{step}"), checksum(sql)),
        )?;
        together.pragma_update(None, "user_version", step)?;
        together.commit()?;
        if found > 0 && closes_bots(sql) {
            tell_of_access(db)?;
        }
    }
    for (step, sql) in (1..=found).zip(steps) {
        let recorded: Option<String> = db
            .query_row("SELECT value FROM facts WHERE name = ?1", [format!("migration.{step}")], |row| {
                row.get(0)
            })
            .optional()?;
        if recorded.as_deref() != Some(&checksum(sql)) {
            return Err(Fault::Altered { step });
        }
    }
    Ok(())
}

/// Whether this is the step that closed bots to unknown people.
fn closes_bots(step: &str) -> bool {
    step.contains("CREATE TABLE access_rules")
}

/// The bots that this step closed to unknown people, each with the number of admitted chats. Bots without
/// credentials are the server's own and left out.
fn closed_bots(db: &Connection) -> rusqlite::Result<Vec<(String, String, i64)>> {
    db.prepare(
        "SELECT platform, id, (SELECT count(*) FROM access_rules r WHERE r.platform = bots.platform AND r.bot = bots.id)
         FROM bots
         WHERE EXISTS (SELECT 1 FROM credentials c WHERE c.platform = bots.platform AND c.bot = bots.id)
         ORDER BY platform, id",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
    .collect()
}

/// Tells the operator that bots no longer answer unknown people, and how many chats were admitted.
fn tell_of_access(db: &Connection) -> Result<(), Fault> {
    for (platform, bot, chats) in closed_bots(db)? {
        tracing::warn!(
            platform,
            bot.id = bot,
            chats,
            "bot {platform}:{bot} is now closed to strangers; {chats} chats that it already knew were admitted \
             (list them: `posthouse access list --bot {platform}:{bot}`; let everybody write: \
             `posthouse bot change {platform}:{bot} --open`)"
        );
    }
    Ok(())
}

/// FNV-1a. It detects mistakes in this repository and is no protection against an attacker.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_that_an_earlier_build_guessed_is_dropped_at_upgrade() {
        let mut db = Connection::open_in_memory().unwrap();
        let at = STEPS.iter().position(|step| step.contains("every guess is dropped")).unwrap();
        run_steps(&mut db, &STEPS[..at]).unwrap();
        db.execute_batch(
            "INSERT INTO tenants (id, name, created) VALUES ('ten_acme', 'acme', 0);
             INSERT INTO instances (id, tenant, name, generation, idle, created)
             VALUES ('inst_heron', 'ten_acme', 'heron', 'newer', 0, 0);",
        )
        .unwrap();
        run(&mut db).unwrap();
        let generation: String =
            db.query_row("SELECT generation FROM instances", [], |row| row.get(0)).unwrap();
        assert_eq!(generation, "auto");
    }

    /// A ledger as it was before the step that contains `words`, with these rows.
    fn before(words: &str, rows: &str) -> Connection {
        let mut db = Connection::open_in_memory().unwrap();
        let at = STEPS.iter().position(|step| step.contains(words)).unwrap();
        run_steps(&mut db, &STEPS[..at]).unwrap();
        db.execute_batch(rows).unwrap();
        db
    }

    fn column(db: &Connection, sql: &str) -> Vec<String> {
        let mut rows = db.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    const AGENTS: &str = "
        INSERT INTO tenants (id, name, created) VALUES ('ten_h', 'home', 1), ('ten_a', 'acme', 1);
        INSERT INTO instances (id, tenant, name, generation, idle, created) VALUES
          ('inst_s', 'ten_h', 'sample', 'unknown', 0, 1), ('inst_h', 'ten_a', 'heron', 'unknown', 0, 1);";

    #[test]
    fn invitations_and_rooms_of_before_go_on_where_it_is_clear_whose_they_are() {
        let mut db = before(
            "CREATE TABLE invitations",
            &format!(
                "{AGENTS}
                 INSERT INTO invites (hash, person, created) VALUES ('1', 'ann', 1), ('2', 'bob', 1), ('3', 'eve', 1);
                 INSERT INTO rooms (id, instance, person, created) VALUES
                   ('web-ann', 'inst_h', 'ann', 1),
                   ('web-bob', 'inst_h', 'bob', 1), ('web-bob-too', 'inst_s', 'bob', 1),
                   ('web-guest', 'inst_s', 'guest', 1), ('web-me', 'inst_s', 'me', 2);
                 INSERT INTO room_lines (room, message, by_agent, text, said) VALUES
                   ('web-me', '1', 0, 'first', 1), ('web-guest', '2', 0, 'last', 2);"
            ),
        );
        run(&mut db).unwrap();
        // Ann talked to one tenant only. Nothing says to whom bob and eve were invited.
        let invited = "SELECT person || ' ' || tenant || ' ' || owner FROM invitations ORDER BY person";
        assert_eq!(column(&db, invited), ["ann ten_a 0", "owner ten_h 1"]);
        let rooms = "SELECT rooms.id || ' ' || coalesce(invitations.person, '-') FROM rooms
                     LEFT JOIN invitations ON invitations.id = rooms.invitation ORDER BY rooms.id";
        assert_eq!(
            column(&db, rooms),
            ["web-ann ann", "web-bob -", "web-bob-too -", "web-guest owner", "web-me -"]
        );
        assert_eq!(column(&db, "SELECT text FROM room_lines ORDER BY seq"), ["first", "last"]);
        let enforced: bool = db.query_row("PRAGMA foreign_keys", [], |row| row.get(0)).unwrap();
        assert!(enforced);
        assert!(db.execute("DELETE FROM rooms WHERE id = 'web-me'", []).is_err(), "lines refer to it");
    }

    #[test]
    fn a_link_of_before_counts_on_the_bot_where_it_was_made_and_proves_nothing_elsewhere() {
        let mut db = before(
            "CREATE TABLE links_per_bot",
            &format!(
                "{AGENTS}
                 INSERT INTO bots (platform, id, shared, settings, created) VALUES
                   ('pigeon', 'shared', 1, '{{}}', 1), ('pigeon', 'own', 0, '{{}}', 1);
                 INSERT INTO bindings (platform, user, instance, tenant, bot, linked, made, dm_default) VALUES
                   ('pigeon', 'ann', 'inst_h', 'ten_a', 'shared', 1, 5, 1),
                   ('pigeon', 'ann', 'inst_s', 'ten_h', 'own', 1, 6, 0),
                   ('pigeon', 'bob', 'inst_s', 'ten_h', 'removed', 1, 7, 0);
                 INSERT INTO author_places (instance, platform, bot, kind, value, user, seen) VALUES
                   ('inst_h', 'pigeon', 'shared', 'chat', 'c1', 'ann', 1),
                   ('inst_s', 'pigeon', 'shared', 'chat', 'c2', 'ann', 1);"
            ),
        );
        run(&mut db).unwrap();
        let links =
            "SELECT bot || ' ' || user || ' ' || instance || ' ' || dm_default FROM bindings ORDER BY bot";
        assert_eq!(column(&db, links), ["own ann inst_s 0", "shared ann inst_h 1"]);
        assert_eq!(column(&db, "SELECT value FROM author_places"), ["c1"]);
    }

    #[test]
    fn at_upgrade_chats_already_known_are_admitted() {
        let mut db = Connection::open_in_memory().unwrap();
        let at = STEPS.iter().position(|step| closes_bots(step)).unwrap();
        run_steps(&mut db, &STEPS[..at]).unwrap();
        db.execute_batch(
            "INSERT INTO bots VALUES ('pigeon', 'tb', 0, '{}', 1), ('home', 'inst_1', 0, '{}', 1),
               ('pigeon', 'unused', 0, '{}', 1);
             INSERT INTO credentials (platform, bot, name, key_id, blob) VALUES
               ('pigeon', 'tb', 'token', 'k', x'00'), ('pigeon', 'unused', 'token', 'k', x'00');
             INSERT INTO chats (instance, chat, platform, bot, seen) VALUES
               ('inst_1', '5', 'pigeon', 'tb', 7), ('inst_2', '5', 'pigeon', 'tb', 9),
               ('inst_1', 'home-1', 'home', 'inst_1', 7);",
        )
        .unwrap();
        run(&mut db).unwrap();
        let admitted: Vec<(String, String, String, bool)> = db
            .prepare("SELECT platform, kind, value, allowed FROM access_rules")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(admitted, [("pigeon".to_owned(), "chat".to_owned(), "5".to_owned(), true)]);
        let logged: Vec<String> = closed_bots(&db).unwrap().iter().map(|bot| format!("{bot:?}")).collect();
        assert_eq!(logged, ["(\"pigeon\", \"tb\", 1)", "(\"pigeon\", \"unused\", 0)"], "what the log says");
        assert_eq!(column(&db, "SELECT CAST(decided AS TEXT) FROM access_rules"), ["1"], "by the wall clock");
        let policy: String =
            db.query_row("SELECT principals FROM bots WHERE id = 'tb'", [], |row| row.get(0)).unwrap();
        assert_eq!(policy, "allow-list");
    }
}
