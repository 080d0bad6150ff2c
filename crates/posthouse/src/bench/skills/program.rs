//! The program of `bench skills`: chained targets whose operations follow each other in a fixed rotation.

/// How many kinds of operations there are.
const ROTATION: usize = 6;

/// A skill of `targets` targets with `ops` operations each. 100 targets of 20 operations are 107 KB.
pub fn chained_targets(targets: usize, ops: usize) -> String {
    let mut source = String::from(
        "# Skill: bench-chain\n# Description: A chain of targets for measuring\n# Status: Approved\n\
         # Vars: LIMIT=5, NAME=harbour\n\n",
    );
    for target in 0..targets {
        match target.checked_sub(1) {
            Some(before) => source.push_str(&format!("step{target}: step{before}\n")),
            None => source.push_str("step0:\n"),
        }
        for op in 0..ops {
            source.push_str(&operation(target, op));
        }
        source.push('\n');
    }
    source.push_str(&format!("default: step{}\n", targets.saturating_sub(1)));
    source
}

/// One operation with everything inside it. It uses variables that earlier operations of its target set.
fn operation(target: usize, op: usize) -> String {
    let name = |letter: char, op: usize| format!("{letter}{target}_{op}");
    match op % ROTATION {
        0 => format!("    $set {} = value of ${{NAME}}\n", name('V', op)),
        1 => format!("    emit(text=\"${{{}}} ${{NAME|trim}}\")\n", name('V', op - 1)),
        2 => format!("    $set {} = [a, b, c]\n", name('L', op)),
        3 => {
            let list = name('L', op - 1);
            format!(
                "    foreach I in ${{{list}}}:\n        if ${{I}} == \"b\":\n            emit(text=\"${{I}}\")\n        \
                 else:\n            $append {list} ${{I}}\n"
            )
        }
        4 => format!(
            "    if ${{LIMIT}} > \"3\" and not ${{{}}}:\n        emit(text=\"${{LIMIT}}\")\n",
            name('V', op - 4)
        ),
        _ => format!("    $ json_parse [1, {op}] -> {}\n", name('J', op)),
    }
}
