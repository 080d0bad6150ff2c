//! Tests of the documentation: every command in it exists and parses, and every link leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::super::{Cli, bot};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Folders that are searched with those below them. The crates have no documents for readers, and `vectors` describes
/// itself.
const FOLDERS: [&str; 6] = ["docs", "peers", "bench", "fuzz", "examples", "skillscript"];

/// The Markdown files of the project, with their texts.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.map(|folder| root().join(folder)).into();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                // What tests install has documents of others.
                true if path.ends_with("node_modules") => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&file).unwrap();
        found.insert(file, text);
    }
    found
}

/// The lines of a document's code blocks, with continued lines joined, and its other text.
fn code_and_text(document: &str) -> (Vec<String>, String) {
    let (mut code, mut text, mut in_code) = (Vec::<String>::new(), String::new(), false);
    let mut continues = false;
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continues = false;
        } else if !in_code {
            text.push_str(line);
            text.push('\n');
        } else {
            let part = line.trim_end_matches('\\');
            match code.last_mut() {
                Some(last) if continues => last.push_str(part),
                _ => code.push(part.to_owned()),
            }
            continues = part.len() < line.len();
        }
    }
    (code, text)
}

/// The commands of a shell line that run our program, as words without the program's name.
fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut quote) = (None::<String>, None);
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() && (at == 0 || line[..at].ends_with(' ')) => break,
            (None, ' ' | '|' | ';' | '&' | '(' | ')' | '>' | '<') => {
                let last = commands.last_mut().unwrap();
                last.extend(word.take());
                if matches!(letter, '>' | '<') {
                    break;
                }
                if letter != ' ' && !last.is_empty() {
                    commands.push(Vec::new());
                }
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.iter().filter_map(|words| of_our_program(words)).collect()
}

/// The words behind the program's name, if a command runs our program: `posthouse …`, also behind variables, or
/// `cargo run … -- …`.
fn of_our_program(words: &[String]) -> Option<Vec<String>> {
    let is_variable = |word: &String| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_uppercase() || "_0123456789".contains(letter))
    };
    let words: Vec<String> = words.iter().skip_while(|word| is_variable(word)).cloned().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["posthouse", ..] => Some(words[1..].to_vec()),
        ["cargo", "run", ..] => {
            let at = words.iter().position(|word| word == "--")?;
            // An example of the SDK is another program.
            let is_ours = !words[..at].iter().any(|word| word == "--example");
            is_ours.then(|| words[at + 1..].to_vec())
        }
        _ => None,
    }
}

/// Whether the subcommands and options exist. Words that stand for something else (`AGENT`, `…`) are passed over.
fn mentions_what_exists(words: &[String]) -> Result<(), String> {
    let global = Cli::command();
    let mut command = global.clone();
    for word in words {
        if let Some(option) = word.trim_start_matches('[').strip_prefix("--") {
            let name = option.split(['=', '|', ']', '[']).next().unwrap_or_default();
            let known = |command: &clap::Command| {
                command.get_arguments().any(|argument| argument.get_long() == Some(name))
            };
            if !known(&command) && !known(&global) && !["help", "version"].contains(&name) {
                return Err(format!("`{}` has no option --{name}", command.get_name()));
            }
            continue;
        }
        let is_word = word.chars().all(|letter| letter.is_ascii_lowercase() || "-|,".contains(letter));
        if command.has_subcommands() && is_word && word.len() > 1 {
            let mut next = None;
            for name in word.split(['|', ',']).filter(|name| !name.is_empty()) {
                next = command.get_subcommands().find(|one| one.get_name() == name).cloned();
                if next.is_none() {
                    return Err(format!("`{}` has no subcommand `{name}`", command.get_name()));
                }
            }
            command = next.unwrap_or(command);
        }
    }
    Ok(())
}

/// Fails if a subcommand has an older spelling, which still parses.
fn spells_subcommands_as_now(matches: &clap::ArgMatches, words: &[String]) -> Result<(), String> {
    let mut matches = matches;
    while let Some((name, of_subcommand)) = matches.subcommand() {
        if !words.iter().any(|word| word == name) {
            return Err(format!("an older spelling of `{name}`"));
        }
        matches = of_subcommand;
    }
    Ok(())
}

#[test]
fn every_command_in_the_documentation_exists_and_parses() {
    let (mut wrong, mut parsed, mut mentioned) = (Vec::new(), 0, 0);
    for (file, document) in documents() {
        let (code, text) = code_and_text(&document);
        for words in code.iter().flat_map(|line| commands(line)) {
            parsed += 1;
            // A synopsis, or a command that is cut short with an ellipsis, cannot be parsed whole.
            let outcome = if words.iter().any(|word| word == "…" || word.starts_with('[')) {
                mentions_what_exists(&words)
            } else {
                let whole = std::iter::once("posthouse".to_owned()).chain(words.clone()).map(OsString::from);
                match Cli::command().try_get_matches_from(bot::with_secrets_named(whole)) {
                    Ok(matches) => spells_subcommands_as_now(&matches, &words),
                    Err(error) if !error.use_stderr() => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            };
            wrong.extend(outcome.err().map(|why| format!("{}: {words:?}: {why}", file.display())));
        }
        for quoted in text.split('`').skip(1).step_by(2) {
            let Some(rest) = quoted.strip_prefix("posthouse ") else { continue };
            mentioned += 1;
            let words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
            let outcome = mentions_what_exists(&words);
            wrong.extend(outcome.err().map(|why| format!("{}: `{quoted}`: {why}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 50 && mentioned > 20, "the documentation was not found: {parsed}, {mentioned}");
}

/// The commands that the README's table of commands names. A row names subcommands in its first column
/// (`config check`), or in its second one after the command of the first.
fn commands_of_the_readme() -> BTreeSet<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let table = readme.split("## Commands").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut named = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let (first, second) = (quoted(cells[1]), quoted(cells[2]));
        if let [command] = first.as_slice() {
            named.extend(second.iter().map(|subcommand| format!("{command} {subcommand}")));
        }
        named.extend(first);
    }
    named
}

#[test]
fn the_readme_lists_every_command() {
    let named = commands_of_the_readme();
    let mut missing = Vec::new();
    for command in Cli::command().get_subcommands() {
        let name = command.get_name();
        let subcommands: Vec<String> =
            command.get_subcommands().map(|one| format!("{name} {}", one.get_name())).collect();
        let wanted = if subcommands.is_empty() { vec![name.to_owned()] } else { subcommands };
        missing.extend(wanted.into_iter().filter(|wanted| !named.contains(wanted)));
    }
    assert!(missing.is_empty(), "the table of commands in README.md lacks: {}", missing.join(", "));
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let documents = documents();
    let (mut broken, mut followed) = (Vec::new(), 0);
    for (file, document) in &documents {
        let (_, text) = code_and_text(document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, section) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let Ok(target) = target.canonicalize() else {
                broken.push(format!("{}: {link}", file.display()));
                continue;
            };
            let Some(there) = documents.get(&target).filter(|_| !section.is_empty()) else { continue };
            if !there.lines().any(|line| line.starts_with('#') && anchor(line) == section) {
                broken.push(format!("{}: no section {link}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(followed > 30, "the documentation was not found: {followed}");
}

#[test]
fn commands_of_a_shell_line_are_found() {
    let found = |line| commands(line).into_iter().map(|words| words.join("+")).collect::<Vec<_>>();
    assert_eq!(
        found("$ posthouse ask heron \"how many?\" --tenant home   # waits"),
        ["ask+heron+how many?+--tenant+home"]
    );
    assert_eq!(
        found("(umask 077; posthouse agent create heron | grep x > heron.env)"),
        ["agent+create+heron"]
    );
    assert_eq!(found("make | posthouse notify heron -"), ["notify+heron+-"]);
    assert_eq!(found("POSTHOUSE_LOG__LEVEL=debug X=1 posthouse up"), ["up"]);
    assert_eq!(found("cargo run --release -- up --port 0  # a server"), ["up+--port+0"]);
    assert!(found("A=posthouse b posthouse up").is_empty());
    assert!(found("cargo run --example x -- up").is_empty());
    assert!(found("# posthouse up").is_empty());
    assert!(mentions_what_exists(&["agent".to_owned(), "create|list".to_owned()]).is_ok());
    assert!(mentions_what_exists(&["agent".to_owned(), "dance".to_owned()]).is_err());
    assert!(mentions_what_exists(&["agent".to_owned(), "create".to_owned(), "--shoes".to_owned()]).is_err());
}

/// Rows of tables and lines of code cannot be broken.
#[test]
fn no_line_of_prose_is_longer_than_120_columns() {
    let mut long = Vec::new();
    for (file, document) in documents() {
        let mut in_code = false;
        for (at, line) in document.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code && !line.starts_with('|') && line.chars().count() > 120 {
                long.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than 120 columns: {}", long.join(", "));
}
