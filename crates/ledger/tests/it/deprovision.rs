//! Deprovisioning, tested against the schema: every table that can have a row of an agent is empty of it afterwards, or
//! is listed here with what stays in it and why.

use std::collections::BTreeMap;

use ledger::Owner;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::book::{Book, START};

/// Rows that stay: the table, what must be true of such a row, and why it stays.
const STAYS: [(&str, &str, &str); 17] = [
    ("gateways", "revoked IS NOT NULL", "a revoked credential is refused by its name"),
    ("gateway_names", "true", "the gateway that is enrolled again under this name is the same one"),
    ("provisioned_names", "true", "the agent that provisions again under this name is the same one"),
    ("clients", "revoked IS NOT NULL", "a revoked credential is refused by its name"),
    ("enroll_tokens", "revoked IS NOT NULL", "lists show what became of a token"),
    (
        "entries",
        "fate = 'dropped' AND event IS NULL AND refs IS NULL AND forward IS NULL",
        "the trace of a message",
    ),
    ("actions", "true", "the trace of a message"),
    ("capability_uses", "true", "the record of what was called with a secret"),
    ("receipts", "true", "they belong to the program that sent the message"),
    ("replies", "true", "they belong to a receipt"),
    ("exchanges", "true", "they belong to the program that asked, and end at their deadline"),
    ("talks", "true", "they end with their receipts"),
    ("routes", "origin = 'operator'", "the operator's"),
    ("invitation_agents", "true", "the operator's"),
    ("rooms", "true", "people keep their conversations, with lines and files"),
    ("arms", "true", "cron jobs do not pass the relay; the operator ends them"),
    ("fires", "true", "the history of cron jobs"),
];

/// Children of the tables above, which stay with their parent rows.
const STAYS_WITH_PARENT: [&str; 2] = ["room_lines", "room_files"];

struct Column {
    name: String,
    kind: String,
    required: bool,
}

fn names(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn columns(db: &Connection, table: &str) -> Vec<Column> {
    let mut statement =
        db.prepare("SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info(?1)").unwrap();
    let column = |row: &rusqlite::Row<'_>| {
        let default: Option<String> = row.get(3)?;
        let required = row.get::<_, bool>(2)? && default.is_none() || row.get::<_, i64>(4)? > 0;
        Ok(Column { name: row.get(0)?, kind: row.get(1)?, required })
    };
    statement.query_map([table], column).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Foreign keys of one column: child column, parent table, parent column.
fn parents(db: &Connection, table: &str) -> Vec<(String, String, String)> {
    let sql = "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?1) AS one
               WHERE (SELECT count(*) FROM pragma_foreign_key_list(?1) WHERE id = one.id) = 1";
    let mut statement = db.prepare(sql).unwrap();
    let key = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    statement.query_map([table], key).unwrap().collect::<Result<_, _>>().unwrap()
}

/// A value that differs by agent and column. Times lie in the future, so that nothing has expired.
fn value(kind: &str, column: &str, agent: i64) -> Value {
    match kind {
        "INTEGER" => Value::Integer(START.millis() + 86_400_000 + agent),
        "BLOB" => Value::Blob(format!("{column} {agent}").into_bytes()),
        _ => Value::Text(format!("{column} {agent}")),
    }
}

/// The tables with rows of agents, and for each a condition that finds those of one agent, whose id is `?1`.
fn tables_of_agents(db: &Connection) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let tables =
        names(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    for table in
        tables.iter().filter(|table| columns(db, table).iter().any(|column| column.name == "instance"))
    {
        found.insert(table.clone(), "instance = ?1".to_owned());
    }
    let direct: Vec<String> = found.keys().cloned().collect();
    for table in tables.iter().filter(|table| !direct.contains(table)) {
        for (column, parent, key) in parents(db, table) {
            if direct.contains(&parent) {
                found.insert(
                    table.clone(),
                    format!("{column} IN (SELECT {key} FROM {parent} WHERE instance = ?1)"),
                );
            }
        }
    }
    found
}

fn insert(db: &Connection, table: &str, (agent, id, tenant): (i64, &str, &str)) {
    let keys = parents(db, table);
    let client = Value::Text(Owner::Instance(id.into()).client().to_string());
    let (mut given, mut values) = (Vec::new(), Vec::new());
    for Column { name, kind, required } in columns(db, table) {
        let parent = keys.iter().find(|(column, parent, _)| *column == name && parent != "instances");
        let value = match name.as_str() {
            "instance" => Value::Text(id.to_owned()),
            "tenant" if required => Value::Text(tenant.to_owned()),
            _ => match parent {
                // The one client of an agent has a name that follows from its own.
                _ if (table, name.as_str()) == ("clients", "id") => client.clone(),
                Some((_, parent, _)) if parent == "clients" => client.clone(),
                // Also where it may be null: a row belongs to the agent by its parent.
                Some((_, parent, key))
                    if required || columns(db, parent).iter().any(|it| it.name == "instance") =>
                {
                    value(&kind, key, agent)
                }
                None if required => value(&kind, &name, agent),
                _ => continue,
            },
        };
        given.push(name);
        values.push(value);
    }
    let marks = vec!["?"; values.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({marks})", given.join(", "));
    db.execute(&sql, rusqlite::params_from_iter(values)).unwrap_or_else(|fault| panic!("{table}: {fault}"));
}

fn count(db: &Connection, table: &str, condition: &str, id: &str) -> i64 {
    db.query_row(&format!("SELECT count(*) FROM {table} WHERE {condition}"), [id], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn deprovisioning_leaves_no_row_of_the_agent_in_any_table_but_those_listed() {
    let book = Book::in_a_folder().await;
    let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("umbrella", "otter").await);
    let file = book.file();
    let agents = [(1, heron.as_str(), "ten_acme"), (2, otter.as_str(), "ten_umbrella")];
    // The ledger counts entries and bytes in memory, so it is closed meanwhile.
    let fill = || {
        let db = Connection::open(file).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        for table in tables_of_agents(&db).keys() {
            agents.iter().for_each(|agent| insert(&db, table, *agent));
        }
    };
    let book = book.reopened_with(fill).await;
    let db = book.beside();
    let tables = tables_of_agents(&db);
    for (table, ..) in STAYS {
        assert!(tables.contains_key(table), "{table} is listed and has no rows of agents");
    }
    let before: BTreeMap<_, _> =
        tables.iter().map(|(table, whose)| (table, count(&db, table, whose, otter.as_str()))).collect();
    for (table, whose) in &tables {
        assert!(
            before[table] > 0 && count(&db, table, whose, heron.as_str()) > 0,
            "{table} has no row to remove"
        );
    }
    for round in ["first", "again"] {
        let done = book.ledger.shared_bots().deprovision(&heron).await.unwrap();
        assert_eq!(done.gateways.len(), usize::from(round == "first"));
        for (table, whose) in &tables {
            let left = count(&db, table, whose, heron.as_str());
            let listed = STAYS.iter().find(|(listed, ..)| listed == table);
            match listed {
                Some((_, as_it_stays, _)) => {
                    assert!(left > 0, "{round}: {table} is listed and has nothing left");
                    let changed =
                        count(&db, table, &format!("{whose} AND NOT ({as_it_stays})"), heron.as_str());
                    assert_eq!(changed, 0, "{round}: rows of {table} are not {as_it_stays}");
                }
                None if STAYS_WITH_PARENT.contains(&table.as_str()) => assert!(left > 0, "{round}: {table}"),
                None => assert_eq!(left, 0, "{round}: {table} still has a row of the agent"),
            }
            assert_eq!(
                count(&db, table, whose, otter.as_str()),
                before[table],
                "{round}: {table} of another agent"
            );
        }
    }
}
