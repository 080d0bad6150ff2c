//! Permission matrix of the command line: every command, run with the wrong credential.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use super::actors::{Actors, NEWS};
use super::{Cells, Name};
use crate::test_server::BINARY;

/// Beginnings of commands that call no server: stand-ins, benchmarks, and commands for files.
const RUN_ALONE: [&str; 5] = ["stand-in ", "bench ", "skillfile ", "skill test", "skill reference"];

/// Commands that call no server, or run one.
const AT_HOME: [&str; 7] = ["up", "init", "serve", "config check", "config print", "openapi", "completions"];

/// Commands with which programs write to agents.
const SPEAKING: [&str; 3] = ["notify", "wake", "ask"];

/// Commands with which programs read their own data. The operator can read all receipts.
const READING: [&str; 4] = ["receipt list", "receipt show", "exchange list", "exchange show"];

/// Commands of the post, tried with every wrong credential. The others are tried with one valid client and
/// one unknown token.
const OF_THE_POST: [&str; 10] = [
    "connector",
    "alias",
    "receipt",
    "tenant",
    "message",
    "skill",
    "approval-key",
    "run",
    "run-settings",
    "secret",
];

/// Every command, from the binary's own help.
fn known(words: &[&str]) -> Vec<String> {
    let output = Command::new(BINARY).args(words).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return vec![words.join(" ")] };
    let commands = commands.split("\n\n").next().unwrap();
    // A description that is too long continues on an indented line.
    let names =
        commands.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.flat_map(|name| known(&[words, &[name]].concat())).collect()
}

/// Arguments of an operator's command, naming an existing or an absent object; none for a command without a
/// row.
fn typed(actors: &Actors, command: &str, is_there: bool) -> Option<Vec<String>> {
    let tenant = if is_there { "acme" } else { "acne" };
    let form = |name: &Name| name.form(is_there).to_owned();
    let (agent, instance) = (form(&actors.agent), form(&actors.instance));
    let file = actors.server.secret_file("agents.json", r#"{"sign": {"url": "http://127.0.0.1:9/"}}"#);
    let words: Vec<&str> = match command {
        "tenant list"
        | "agent list"
        | "client list"
        | "enroll-token list"
        | "bot list"
        | "route list"
        | "binding list"
        | "claim list"
        | "connector list"
        | "alias list"
        | "receipt list"
        | "audit list"
        | "inbox list"
        | "inbox dead"
        | "job list"
        | "signing-key list"
        | "signing-key rotate"
        | "scheduler-secret list"
        | "scheduler-secret rotate"
        | "scheduler-secret revoke"
        | "invite list" => vec![],
        "tenant create" => vec!["enrolled_agent"],
        "tenant show" | "tenant remove" => vec![tenant],
        "tenant change" => vec![tenant, "--peer-post", "none"],
        "agent create" => vec!["enrolled_agent", "--tenant", tenant],
        "agent show" | "agent cron" | "agent remove" | "agent rotate" | "agent revoke" => {
            vec![&agent, "--tenant", tenant]
        }
        "agent change" => vec![&agent, "--wake-url", "http://127.0.0.1:9/", "--tenant", tenant],
        "client create" => vec!["--tenant", tenant],
        "client revoke" => vec![actors.heron["client_id"].as_str().unwrap()],
        "capability list" => vec!["--agent", &agent],
        "enroll-token create" => vec!["--tenant", tenant, "--agent", &agent],
        "enroll-token revoke" => vec!["enr_019a0000"],
        "bot create" => vec!["telegram", "--id", "1", "--token-file", &file],
        "bot try" => vec![&file, "--bot", "telegram:1"],
        "bot change" => vec!["telegram:1", "--open"],
        "access list" => vec![],
        "access allow" | "access deny" => vec!["telegram:1", "K7QF3M"],
        "access remove" => vec!["telegram:1", "user:5"],
        "bot show" | "bot remove" => vec!["telegram:1"],
        "route create" => vec!["telegram:1", "chat:5", &instance],
        "route change" => vec!["telegram:1", "chat:5", "--stale-after", "2h", "--stale", "mark"],
        "route show" | "route remove" => vec!["telegram:1", "chat:5"],
        "binding remove" => vec!["telegram:5", "--agent", &instance],
        "claim grant" => vec!["telegram:1", "chat:5", &instance],
        "claim remove" => vec!["telegram:1", "chat:5", "--agent", &instance],
        "connector create" => vec!["enrolled_agent", "--kind", "noop", "--tenant", tenant],
        "connector import" => vec![&file, "--tenant", tenant],
        "connector show" | "connector check" | "connector remove" => vec!["hooks", "--tenant", tenant],
        "alias create" => vec!["enrolled_agent", &agent, "--tenant", tenant],
        "alias remove" => vec!["kestrel", "--tenant", tenant],
        "run list" | "run-settings show" | "secret list" => vec!["--tenant", tenant],
        "run show" | "run cancel" | "run replay" => vec!["run_019a0000", "--tenant", tenant],
        "run-settings change" => vec!["--tenant", tenant, "--max-run", "60"],
        "secret set" => vec!["KEY", "--tenant", tenant, "--value-file", &file],
        "secret remove" => vec!["KEY", "--tenant", tenant],
        "skill list" | "skill reapprove" | "skill verify" | "approval-key list" | "approval-key log" => {
            vec!["--tenant", tenant]
        }
        "skill lint" | "skill compile" | "skill fmt" | "skill show" | "skill history" | "skill restore"
        | "skill run" => {
            vec!["tide-watch", "--tenant", tenant]
        }
        "skill approve" | "skill delete" => vec!["tide-watch", "--yes", "--tenant", tenant],
        "skill write" => vec!["tide-watch", &file, "--tenant", tenant],
        "skill status" => vec!["tide-watch", "Approved", "--tenant", tenant],
        "approval-key add" => vec!["--tenant", tenant, "--public-key-file", &file],
        "approval-key revoke" => vec!["3f0c9d52a1b4e677", "--tenant", tenant],
        "receipt show" => vec![actors.dispatch.form(is_there)],
        "inbox redrive" | "message trace" => vec![actors.entry.form(is_there)],
        "job show" | "job fire-now" | "job redrive" => vec![&instance, "job"],
        "job history" => vec!["--agent", &instance],
        "invite create" => vec!["ana", "--tenant", tenant],
        "invite link" | "invite remove" => vec!["ana"],
        "backup" => vec!["/nowhere/backup.db"],
        _ => return None,
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

pub fn fill(actors: &Actors, cells: &mut Cells) {
    let commands = known(&[]);
    assert!(commands.len() > 50, "{commands:?}");
    let secret = |of: &str, token: &str| actors.server.secret_file(of, token);
    let bearer = |header: &Option<String>| header.as_deref().unwrap().replacen("Bearer ", "", 1);
    // One owner of each kind; the admin API test shows that all others get the same answer.
    let wrong = [&actors.acme, &actors.ours[2], &actors.umbrella, &actors.revoked[1]].into_iter().enumerate();
    let operators: Vec<(&str, String)> = wrong
        .map(|(number, owner)| (owner.who, secret(&format!("wrong-{number}"), &bearer(&owner.authorization))))
        .chain([("an unknown token", secret("guess", "guess"))])
        .collect();
    for command in &commands {
        if AT_HOME.contains(&command.as_str()) || RUN_ALONE.iter().any(|start| command.starts_with(start)) {
            continue;
        }
        if command == "mcp" {
            offers_tools(actors, cells);
            continue;
        }
        if command == "skill run" {
            runs_skill(actors, cells);
        }
        if SPEAKING.contains(&command.as_str()) {
            speaks(actors, cells, command);
            continue;
        }
        if READING.contains(&command.as_str()) {
            reads(actors, cells, command);
            if !command.starts_with("receipt") {
                continue;
            }
        }
        let Some(there) = typed(actors, command, true) else {
            panic!("`posthouse {command}` has no row: how is it given?");
        };
        let absent = typed(actors, command, false).unwrap();
        let of_the_post = OF_THE_POST.contains(&command.split(' ').next().unwrap());
        let who = operators.iter().enumerate();
        let who = who.filter(|(number, _)| of_the_post || [0, operators.len() - 1].contains(number));
        for (_, (who, file)) in who {
            let run = |words: &[String]| {
                let mut line: Vec<&str> = command.split(' ').collect();
                line.extend(words.iter().map(String::as_str));
                types(actors, &[&line[..], &["--admin-token-file", file]].concat(), &[])
            };
            let heard = run(&there);
            // `skill lint` and its like first say what they took for the name of a stored skill.
            let read_as_name =
                "posthouse: there is no file tide-watch, so it is read as the name of a stored skill: ";
            let words = heard.1.strip_prefix(read_as_name).or_else(|| heard.1.strip_prefix("posthouse: "));
            let refused = heard.0 == 1 && words == Some("the admin token is missing or wrong\n");
            // A command that names nothing cannot name an absent object.
            let other = if there == absent { heard.clone() } else { run(&absent) };
            let what = format!("posthouse {command} by {who}");
            cells.cell("commands", &what, refused, &format!("{heard:?}"), &format!("{other:?}"));
        }
    }
}

/// `mcp`, with a client that asks for an agent.
fn offers_tools(actors: &Actors, cells: &mut Cells) {
    let mut guess = actors.umbrella_client.clone();
    guess["client_secret"] = "guess".into();
    for (who, credential, why) in [
        ("another tenant's program", &actors.umbrella_client, "error"),
        ("a revoked program", &actors.revoked_client, "rejects the secret"),
        ("an unknown program", &guess, "rejects the secret"),
    ] {
        let [there, absent] = [true, false].map(|is_there| {
            let params =
                json!({ "name": "agent_list", "arguments": { "agent": actors.instance.form(is_there) } });
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            let mut child = Command::new(BINARY)
                .args(["mcp", "--stdio"])
                .env("POSTHOUSE_URL", &actors.server.url)
                .env("POSTHOUSE_CLIENT_ID", credential["client_id"].as_str().unwrap())
                .env("POSTHOUSE_CLIENT_SECRET", credential["client_secret"].as_str().unwrap())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(format!("{call}\n").as_bytes()).unwrap();
            let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            actors.instance.without(is_there, &said)
        });
        let is_refused = there.contains(why) && there.contains("error");
        cells.cell("commands", &format!("posthouse mcp by {who}"), is_refused, &there, &absent);
    }
}

/// `skill run` for a skill on the server, by programs of others. An agent of the owner runs it.
fn runs_skill(actors: &Actors, cells: &mut Cells) {
    let text = "# Skill: tide-watch\n# Status: Approved\ngo:\n    emit(text=\"high water\")\ndefault: go\n";
    let file = actors.server.secret_file("tide-watch.md", text);
    actors.server.does(&["skill", "write", "tide-watch", &file, "--tenant", "acme"]);
    let skill = Name::new("tide-watch", "tide-match");
    let mut guess = actors.umbrella_client.clone();
    guess["client_secret"] = "guess".into();
    let runs = |credential: &serde_json::Value, is_there: bool| {
        let text = |name: &str| credential[name].as_str().unwrap();
        let env =
            [("POSTHOUSE_CLIENT_ID", text("client_id")), ("POSTHOUSE_CLIENT_SECRET", text("client_secret"))];
        let (code, said) = types(actors, &["skill", "run", skill.form(is_there)], &env);
        (code, skill.without(is_there, &said))
    };
    for (who, credential) in [
        ("another tenant's program", &actors.umbrella_client),
        ("a revoked program", &actors.revoked_client),
        ("an unknown program", &guess),
    ] {
        let (there, absent) = (runs(credential, true), runs(credential, false));
        let is_refused = there.0 == 1 && !there.1.contains("high water");
        let what = format!("posthouse skill run by {who}");
        cells.cell("commands", &what, is_refused, &format!("{there:?}"), &format!("{absent:?}"));
    }
    let own = runs(&actors.wren, true);
    assert!(own.0 == 0 && own.1.contains("high water"), "{own:?}");
}

/// A command that writes to agents, run by programs that have no permission for the agent or the question.
fn speaks(actors: &Actors, cells: &mut Cells, command: &str) {
    let revoked = &actors.revoked_client;
    let mut guess = actors.umbrella_client.clone();
    guess["client_secret"] = "guess".into();
    let told = |name: &Name, is_there: bool| -> Vec<String> {
        // Fixed ids, because generated ones would differ between the two runs.
        let known = if command == "ask" { "--correlation-id" } else { "--idempotency-key" };
        [command, name.form(is_there), "psst", known, "probe"].map(str::to_owned).into()
    };
    let attached = |name: &Name, is_there: bool| -> Vec<String> {
        vec![command.to_owned(), "--attach".to_owned(), name.form(is_there).to_owned()]
    };
    for (who, credential, code) in [
        ("another tenant's program", &actors.umbrella_client, 4),
        ("a revoked program", revoked, 1),
        ("an unknown program", &guess, 1),
        ("another agent of acme", &actors.wren, 1),
    ] {
        // An agent may write to other agents of its tenant, but their questions belong to them.
        let is_ours = who == "another agent of acme";
        let mut asks: Vec<(&Name, i32, [Vec<String>; 2])> = Vec::new();
        if !is_ours {
            let words = |name| [told(name, true), told(name, false)];
            asks.push((&actors.instance, code, words(&actors.instance)));
            // Repeated refusals slow an address down, so unknown credentials try fewer cases.
            if code == 4 {
                asks.push((&actors.wired, code, words(&actors.wired)));
            }
        }
        if command == "ask" {
            let words = [attached(&actors.correlation, true), attached(&actors.correlation, false)];
            asks.push((&actors.correlation, 1, words));
        }
        for (name, code, words) in asks {
            let [there, absent] = [true, false].map(|is_there| {
                let words: Vec<&str> = words[usize::from(!is_there)].iter().map(String::as_str).collect();
                let text = |name: &str| credential[name].as_str().unwrap();
                let env = [
                    ("POSTHOUSE_CLIENT_ID", text("client_id")),
                    ("POSTHOUSE_CLIENT_SECRET", text("client_secret")),
                ];
                let (code, said) = types(actors, &words, &env);
                (code, name.without(is_there, &said))
            });
            let what = format!("posthouse {command} {} by {who}", name.there);
            cells.cell("commands", &what, there.0 == code, &format!("{there:?}"), &format!("{absent:?}"));
        }
    }
}

/// A command that reads data, run by programs that may not see it.
fn reads(actors: &Actors, cells: &mut Cells, command: &str) {
    let name = if command.starts_with("receipt") { &actors.dispatch } else { &actors.correlation };
    for (who, credential) in [
        ("another tenant's program", &actors.umbrella_client),
        ("a revoked program", &actors.revoked_client),
        ("another agent of acme", &actors.wren),
    ] {
        let text = |name: &str| credential[name].as_str().unwrap();
        let env =
            [("POSTHOUSE_CLIENT_ID", text("client_id")), ("POSTHOUSE_CLIENT_SECRET", text("client_secret"))];
        let run = |is_there: bool| {
            let mut line: Vec<&str> = command.split(' ').collect();
            if command.ends_with("show") {
                line.push(name.form(is_there));
            }
            let (code, said) = types(actors, &line, &env);
            // A list is never refused, but contains nothing of others.
            let refused = (command.ends_with("list") || code == 1) && !said.contains(NEWS);
            let refused = refused && (command.ends_with("show") || !said.contains(&name.there));
            (refused, format!("{code} {}", name.without(is_there, &said)))
        };
        let ((refused, there), (_, absent)) = (run(true), run(false));
        cells.cell("commands", &format!("posthouse {command} by {who}"), refused, &there, &absent);
    }
}

/// The exit code, and everything it said.
fn types(actors: &Actors, words: &[&str], env: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(BINARY);
    command.args(["--json", "--url", &actors.proxied_url]).args(words).envs(env.iter().copied());
    let output = command.current_dir(actors.server.dir.path()).stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}
