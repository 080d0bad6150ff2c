//! Report: figures with their targets, as a table or JSON.

use serde::Serialize;
use serde_json::Value;

use super::machine::Machine;

#[derive(Serialize)]
pub struct Report {
    machine: Machine,
    figures: Vec<Figure>,
    /// Results of other systems under the same loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    peers: Option<Value>,
    /// Table of all systems.
    #[serde(skip)]
    table: String,
}

#[derive(Clone, Debug, Serialize)]
struct Figure {
    part: &'static str,
    name: String,
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bar: Option<Bar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<bool>,
}

/// Target of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bar {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<f64>,
}

pub fn at_least(least: f64) -> Bar {
    Bar { at_least: Some(least), at_most: None, goal: None }
}

pub fn at_most(most: f64) -> Bar {
    Bar { at_least: None, at_most: Some(most), goal: None }
}

impl Bar {
    pub fn goal(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self
    }

    fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least) && self.at_most.is_none_or(|most| value <= most)
    }

    fn words(&self) -> String {
        let mut words = match (self.at_least, self.at_most) {
            (Some(least), _) => format!("at least {}", number(least)),
            (None, Some(most)) => format!("at most {}", number(most)),
            (None, None) => String::new(),
        };
        if let Some(goal) = self.goal {
            words.push_str(&format!(", goal {}", number(goal)));
        }
        words
    }
}

/// Names of figures that others are compared with.
pub const ECHO_RATE: &str = "bare WebSocket echo, 64 connections";
pub const ECHO_CPU: &str = "bare WebSocket echo, server CPU";
pub const SYNC_P50: &str = "fdatasync of 4 KiB, p50";
pub const PEAK_RATE: &str = "messages, webhook to acknowledged";
pub const PEAK_CPU: &str = "server CPU";
pub const FIXED_RATE_P50: &str = "webhook to 200, p50";

impl Report {
    pub fn new(machine: Machine) -> Self {
        Self { machine, figures: Vec::new(), peers: None, table: String::new() }
    }

    pub fn figure(&mut self, part: &'static str, name: impl Into<String>, value: f64, unit: &'static str) {
        self.push(part, name.into(), value, unit, None);
    }

    /// Adds a figure with a target.
    pub fn judged(
        &mut self,
        part: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        bar: Bar,
    ) {
        self.push(part, name.into(), value, unit, Some(bar));
    }

    fn push(&mut self, part: &'static str, name: String, value: f64, unit: &'static str, bar: Option<Bar>) {
        let figure = Figure { part, name, value, unit, bar, holds: bar.map(|bar| bar.holds(value)) };
        eprintln!("bench:   {}: {} {}", figure.name, number(value), unit);
        self.figures.push(figure);
    }

    /// Ratios to what this machine does without a server.
    pub fn compare(&mut self) {
        for (name, value, floor) in [
            ("peak rate, part of the bare echo's", ("peak", PEAK_RATE), ("floor", ECHO_RATE)),
            ("CPU of a message, in bare echoes", ("peak", PEAK_CPU), ("floor", ECHO_CPU)),
            (
                "webhook to 200 at a fixed rate, in fdatasyncs",
                ("fixed rate", FIXED_RATE_P50),
                ("floor", SYNC_P50),
            ),
        ] {
            self.ratio(name, value, floor);
        }
    }

    /// Ratio of two figures, each given by part and name, if both were measured.
    pub fn ratio(&mut self, name: &str, of: (&str, &str), to: (&str, &str)) {
        if let (Some(value), Some(floor)) = (self.value(of.0, of.1), self.value(to.0, to.1)) {
            self.figure("ratio", name, value / floor, "x");
        }
    }

    pub fn value(&self, part: &str, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|figure| figure.part == part && figure.name == name);
        found.map(|figure| figure.value)
    }

    /// Adds other systems, and a table of all.
    pub fn beside(&mut self, peers: Value, table: String) {
        self.peers = Some(peers);
        self.table = table;
    }

    pub fn print_json(&self) {
        println!("{}", serde_json::to_string_pretty(self).expect("a report holds only texts and numbers"));
    }

    pub fn print(&self) {
        let Machine { cores, cpu, memory_gib, kernel, filesystem, load, build } = &self.machine;
        println!("{cores} cores, {cpu}, {memory_gib} GiB; Linux {kernel}; {filesystem}; load {load} before");
        if *build == "debug" {
            println!("This is a debug build: its figures are meaningless.");
        }
        if filesystem.starts_with("tmpfs") {
            println!(
                "The server folders were in memory: nothing was written to a disk. Use --dir with a folder on one."
            );
        }
        println!();
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        println!("{:8} {:width$} {:>12} {:8} {:5} bar", "part", "figure", "measured", "", "holds");
        for figure in &self.figures {
            let (holds, bar) = match (&figure.bar, figure.holds) {
                (Some(bar), Some(true)) => ("yes", bar.words()),
                (Some(bar), _) => ("NO", bar.words()),
                (None, _) => ("", String::new()),
            };
            let Figure { part, name, value, unit, .. } = figure;
            let line = format!("{part:8} {name:width$} {:>12} {unit:8} {holds:5} {bar}", number(*value));
            println!("{}", line.trim_end());
        }
        if !self.table.is_empty() {
            println!("\n{}", self.table.trim_end());
        }
    }
}

/// Three significant digits, with separators between thousands.
fn number(value: f64) -> String {
    let places = match value.abs() {
        small if small < 10.0 && small.fract() != 0.0 => 2,
        middling if middling < 100.0 && middling.fract() != 0.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.split_at(whole.len() - whole.trim_start_matches('-').len());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{rest}") }
}

/// Distribution of a quantity.
pub struct Spread(Vec<u64>);

impl Spread {
    pub fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self(nanos)
    }

    /// The percentile, in milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        let at = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        self.0.get(at.clamp(1, self.0.len().max(1)) - 1).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.123, "0.12"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12_345.6, "12,346"),
            (-1234.0, "-1,234"),
            (2.0, "2"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = Spread::of((1..=100).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!([50.0, 99.0, 100.0].map(|percent| spread.percentile(percent)), [50.0, 99.0, 100.0]);
        assert_eq!(Spread::of(Vec::new()).percentile(50.0), 0.0);
    }

    #[test]
    fn a_bar_bites_on_its_own_side() {
        assert!(at_least(10.0).goal(15.0).holds(10.0) && !at_least(10.0).holds(9.9));
        assert!(at_most(3.0).holds(3.0) && !at_most(3.0).holds(3.1));
        assert_eq!(at_least(10_000.0).goal(15_000.0).words(), "at least 10,000, goal 15,000");
    }
}
