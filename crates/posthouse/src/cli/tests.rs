//! Rules for all commands: help texts, examples, and command lines that must parse.

mod documentation;

use super::*;

#[test]
fn every_command_can_be_parsed_and_explains_itself() {
    Cli::command().debug_assert();
    for line in [
        "posthouse up --dir d --listen 127.0.0.1:0",
        "posthouse serve --config f",
        "posthouse --dir d tenant create acme --json",
        "posthouse agent create heron --tenant acme --wake-url http://w --bot telegram:1 --bot telegram:2 --json",
        "posthouse agent revoke inst_1",
        "posthouse agent create heron --tenant acme --callback-url https://h",
        "posthouse agent change heron --no-wake-url --callback-url https://h",
        "posthouse agent change heron --generation newer --gateway gw_1",
        "posthouse agent change heron --tenant acme --generation auto --stream-cursor ...",
        "posthouse client create --tenant acme",
        "posthouse client create --agent heron --tenant acme --login --json",
        "posthouse client list --tenant acme",
        "posthouse client revoke agent:inst_1",
        "posthouse bot create telegram --id 7001 --shared --open --mode poll --api-base-url http://a --secret-file token=f",
        "posthouse bot change telegram:1 --closed",
        "posthouse access list",
        "posthouse access allow telegram:1 K7QF3M",
        "posthouse access deny telegram:1 user:5 --json",
        "posthouse access remove telegram:1 group:-7",
        "posthouse route create telegram:1 * heron --tenant acme",
        "posthouse audit list --limit 10 --after 7",
        "posthouse tenant change acme --peer-post none",
        "posthouse tenant change acme --storage-bytes default",
        "posthouse connector create hooks --tenant acme --kind file-drop --settings f --authorization-file a --hmac-secret-file h --force",
        "posthouse connector import f --tenant acme --name hooks --timeout-ms 100 --hmac-secret-file h",
        "posthouse connector check hooks --tenant acme",
        "posthouse alias create perry perry@example.org --tenant acme",
        "posthouse receipt list --tenant acme --agent heron --state failed --limit 5",
        "posthouse receipt list --client-id tenant:ten_1 --client-secret-file f --after 7",
        "posthouse receipt show d-1",
        "posthouse receipt show d-1 --tenant acme",
        "posthouse exchange list --tenant acme --limit 5 --after c",
        "posthouse exchange show c --client-id tenant:ten_1 --client-secret-file f",
        "posthouse notify heron hello --tenant acme --kind template --event-type e --correlation-id c --connector relay --connector hooks --from me --idempotency-key k --json",
        "posthouse notify heron@s - --client-id tenant:ten_1 --client-secret-file f",
        "posthouse wake heron --when +5m --wait 2.5 --session s --tenant acme",
        "posthouse ask heron why? --timeout 5 --correlation-id c --tenant acme",
        "posthouse ask --attach c --tenant acme",
        "posthouse inbox redrive ent_1 ent_2",
        "posthouse job list --agent heron --state dead --json",
        "posthouse job history --agent heron --job ab12 --limit 5 --after 7",
        "posthouse job fire-now heron ab12 --tenant acme",
        "posthouse signing-key rotate --algorithm RS256 --at-once",
        "posthouse scheduler-secret rotate",
        "posthouse message trace telegram:-1001:42",
        "posthouse backup f",
        "posthouse stand-in telegram --bot 1:s@b --bot 2:s",
        "posthouse stand-in discord --bot 1:s@b --limits",
        "posthouse stand-in matrix --account @posty:hs.test=a=h --limits",
        "posthouse stand-in slack --app A1:xoxb-a:xapp-b:s@b --limits",
        "posthouse stand-in feishu --app cli_a1:s:k:t@b --limits",
        "posthouse stand-in whatsapp --number 106:t:s:v --limits",
        "posthouse stand-in twilio --account AC1:t:+15550100",
        "posthouse stand-in webhook --listen 127.0.0.1:0",
        "posthouse stand-in wecom --app ww1:2:s:t:canary7890123456789012345678901234567890123",
        "posthouse bot try body.json --settings f --set template=x --event push",
        "posthouse bot try body.json --bot webhook:build --json",
        "posthouse config print --example",
        "posthouse bench clock --quick --only pace --peers --json",
        "posthouse bench post --seconds 2 --rounds 2 --json",
        "posthouse completions bash",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
    }
    assert!(Cli::try_parse_from(["posthouse", "agent", "create", "heron"]).is_err(), "a tenant is needed");
    for line in [
        "posthouse agent change heron",
        "posthouse bot change telegram:1",
        "posthouse bot change telegram:1 --open --closed",
        "posthouse bot list --platform telegram --bot telegram:1",
        "posthouse job history",
        "posthouse job history heron --agent heron",
        "posthouse job list heron --agent heron",
        "posthouse access list telegram:1 --bot telegram:1",
        "posthouse agent change heron --gateway gw_1",
        "posthouse agent change heron --wake-url http://w --no-wake-url",
        "posthouse client create --tenant acme --login",
        "posthouse connector create hooks --tenant acme --kind pigeon",
        "posthouse connector show hooks",
        "posthouse ask",
        "posthouse ask heron --attach c",
        "posthouse ask heron why? --timeout 3601",
        "posthouse notify heron hello --tenant acme --client-id c",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}

#[test]
fn an_older_spelling_still_works_and_is_not_in_the_help() {
    for (now, before) in [
        ("tenant change acme --peer-post none", "tenant set acme --peer-post none"),
        ("invite remove Ann", "invite revoke Ann"),
        ("job list --agent heron", "job list heron"),
        ("job history --agent heron", "job history heron"),
        ("job history --agent heron --job ab12", "job history heron ab12"),
        ("inbox list --agent heron --tenant acme", "inbox list heron --tenant acme"),
        ("inbox dead --agent heron", "inbox dead heron"),
        ("access list --bot telegram:1", "access list telegram:1"),
    ] {
        for line in [now, before] {
            let words = std::iter::once("posthouse").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
        let mut command = Cli::command();
        let mut shown = &mut command;
        for word in now.split(' ').take(2) {
            shown = shown.find_subcommand_mut(word).unwrap();
        }
        assert_eq!(shown.get_visible_aliases().count(), 0, "{before}");
        let help = shown.render_help().to_string();
        let older = ["tenant set", "invite revoke", "[AGENT]", "[JOB]", "older spelling"];
        assert!(!older.iter().any(|older| help.contains(older)), "{help}");
    }
}

#[test]
fn filters_and_paging_are_spelled_alike() {
    let takes = |path: &str, options: &[&str]| {
        let mut command = &Cli::command();
        for word in path.split(' ') {
            command = command.find_subcommand(word).unwrap();
        }
        for option in options {
            assert!(
                command.get_arguments().any(|argument| argument.get_long() == Some(option)),
                "`{path}` has no --{option}"
            );
        }
    };
    for path in ["access list", "bot list", "route list"] {
        takes(path, &["platform", "bot"]);
    }
    for path in ["job list", "job history", "inbox list", "inbox dead", "receipt list"] {
        takes(path, &["agent", "tenant"]);
    }
    for path in ["job history", "audit list", "receipt list", "exchange list"] {
        takes(path, &["limit", "after"]);
    }
}

#[test]
fn every_command_shows_an_example_in_its_help() {
    fn walk(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        if command.get_subcommands().next().is_none() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example") || path.contains("bench"), "{path}");
            assert!(command.get_about().is_some(), "{path}");
        }
        command.get_subcommands().for_each(|inner| walk(inner, &path));
    }
    walk(&Cli::command(), "");
}

#[test]
fn every_argument_says_what_it_is() {
    fn walk(command: &clap::Command, path: &str, silent: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        let unexplained = command.get_arguments().filter(|argument| argument.get_help().is_none());
        silent.extend(unexplained.map(|argument| format!("{path} {}", argument.get_id())));
        command.get_subcommands().for_each(|inner| walk(inner, &path, silent));
    }
    let mut silent = Vec::new();
    walk(&Cli::command(), "", &mut silent);
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
