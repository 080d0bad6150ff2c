//! Cron expressions: parses the stock agent's fields and rewrites them for the matcher.
//!
//! Ranges that wrap, steps from a number upwards and Sunday as 7 are expanded to lists of values, so that
//! one matcher serves both dialects. The last day of a month, the nearest working day and the n-th weekday
//! are passed on unchanged.

use std::collections::BTreeSet;

use super::{Dialect, Flaw, ScheduleFault, is_blank, skipped_days::SkippedDays, wall::Wall};

const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// Definition of one field.
struct FieldDefinition {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
    /// The letters of special days that are passed on.
    special: &'static str,
}

const fn plain(name: &'static str, least: u32, most: u32) -> FieldDefinition {
    FieldDefinition { name, least, most, names: &[], special: "" }
}

const PLACES: [FieldDefinition; 7] = [
    plain("minute", 0, 59),
    plain("hour", 0, 23),
    FieldDefinition { name: "day of the month", least: 1, most: 31, names: &[], special: "LW" },
    FieldDefinition { name: "month", least: 1, most: 12, names: &MONTHS, special: "" },
    FieldDefinition { name: "weekday", least: 0, most: 6, names: &DAYS, special: "L#" },
    plain("second", 0, 59),
    plain("year", 1970, 2099),
];
const MONTH_DAY: usize = 2;
const MONTH: usize = 3;
const WEEKDAY: usize = 4;

/// The fields between blanks, each with the number of characters before it.
pub(super) fn split(expr: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    for (count, (place, c)) in expr.char_indices().chain([(expr.len(), ' ')]).enumerate() {
        match (start, is_blank(c)) {
            (None, false) => start = Some((count, place)),
            (Some((before, from)), true) => {
                found.push((before, &expr[from..place]));
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// Reads minute, hour, day, month and weekday, then optionally second and year.
pub(super) fn compile(expr: &str, dialect: Dialect) -> Result<Wall, ScheduleFault> {
    let fields = split(expr);
    if !(5..=PLACES.len()).contains(&fields.len()) {
        let why = format!("a cron expression has 5, 6 or 7 fields, not {}", fields.len());
        let at = fields.get(PLACES.len()).map_or(0, |field| field.0);
        return Err(ScheduleFault::new(Flaw::BadCron, why).at(at).nearest("`0 9 * * *`"));
    }
    let mut spelled = vec![];
    for (index, (before, field)) in fields.iter().enumerate() {
        let misread = |why: String| {
            let why = format!("{} `{field}`: {why}", PLACES[index].name);
            ScheduleFault::new(Flaw::BadCron, why).at(*before).nearest(mended(&fields, index))
        };
        spelled.push(Field::read(field, &PLACES[index]).map_err(&misread)?);
        // Stock accepts 7 for Sunday only in expressions without seconds.
        if index == WEEKDAY && fields.len() > 5 && has_seventh(field) {
            return Err(misread("in an expression with seconds, Sunday is 0 and not 7".to_owned()));
        }
    }
    let text = |index: usize| fields.get(index).map_or("", |field| field.1);
    let put = |index: usize| {
        let Some(field) = spelled.get(index) else {
            return if index == 5 { "0".to_owned() } else { "*".to_owned() };
        };
        // A full set of days is not a restriction, unless the other field of days is restricted: then a
        // match of either field is enough, and the full one always matches.
        let restricts = match index {
            MONTH_DAY => !text(WEEKDAY).contains('*'),
            WEEKDAY => !text(MONTH_DAY).contains('*'),
            _ => false,
        };
        field.put(&PLACES[index], restricts)
    };
    let ordered = [5, 0, 1, 2, 3, 4, 6].map(put);
    let both_passes = text(1).starts_with('*');
    let wall = Wall::new(&ordered.join(" "), both_passes, dialect)
        .map_err(|why| ScheduleFault::new(Flaw::BadCron, why).at(0).nearest("`0 9 * * *`"))?;
    if put(WEEKDAY) == "*" && !some_month_has(&spelled[MONTH], &spelled[MONTH_DAY]) {
        return Ok(wall.never());
    }
    let in_february = spelled[MONTH].open || spelled[MONTH].values.contains(&2);
    if dialect == Dialect::Posthouse || put(MONTH_DAY) == "*" || !in_february {
        return Ok(wall);
    }
    let weekdays = if put(WEEKDAY) == "*" { BTreeSet::new() } else { spelled[WEEKDAY].values.clone() };
    Ok(wall.skipping(SkippedDays { days: spelled[MONTH_DAY].values.clone(), weekdays }))
}

/// The expression with names replaced by numbers, so that every cron parser can read it.
pub(super) fn without_names(expr: &str) -> String {
    let numbered = split(expr).into_iter().enumerate().map(|(index, (_, field))| {
        let names = PLACES.get(index).map_or(&[] as &[&str], |place| place.names);
        let first = usize::from(index == MONTH);
        let name =
            |text: String, (value, name): (usize, &&str)| text.replace(name, &(value + first).to_string());
        if names.is_empty() {
            field.to_owned()
        } else {
            names.iter().enumerate().fold(field.to_uppercase(), name)
        }
    });
    numbered.collect::<Vec<_>>().join(" ")
}

/// Whether any of the days exists in any of the months. Checked beforehand, because a search without a
/// match takes long.
fn some_month_has(months: &Field, days: &Field) -> bool {
    let longest = |month: u32| match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let Some(first) = days.values.first().filter(|_| !days.open && days.passed_on.is_empty()) else {
        return true;
    };
    months.open || months.values.iter().any(|month| *first <= longest(*month))
}

/// Whether Sunday is written as 7. A step of 7 is not a day.
fn has_seventh(field: &str) -> bool {
    let spans = field.split(',').filter_map(|item| item.split('/').next());
    spans.flat_map(|span| span.split('-')).any(|day| count(day) == Ok(7))
}

/// The expression with `*` in the bad field: the nearest accepted one.
fn mended(fields: &[(usize, &str)], bad: usize) -> String {
    let kept = fields.iter().enumerate().map(|(index, field)| if index == bad { "*" } else { field.1 });
    format!("`{}`", kept.collect::<Vec<_>>().join(" "))
}

#[derive(Default)]
struct Field {
    open: bool,
    values: BTreeSet<u32>,
    passed_on: Vec<String>,
}

impl Field {
    fn read(text: &str, place: &FieldDefinition) -> Result<Self, String> {
        let mut field = Self::default();
        if text == "?" && !place.special.is_empty() {
            field.open = true;
            return Ok(field);
        }
        for item in text.to_uppercase().split(',') {
            if item == "*" {
                field.open = true;
            } else if !place.names.contains(&item) && (item.ends_with(['L', 'W']) || item.contains('#')) {
                field.passed_on.push(special(item, place)?);
            } else {
                field.values.extend(expand(item, place)?);
            }
        }
        Ok(field)
    }

    fn put(&self, place: &FieldDefinition, full_restricts: bool) -> String {
        let full = self.values.len() as u32 > place.most - place.least;
        if self.open || (full && !full_restricts) {
            return "*".to_owned();
        }
        let values = self.values.iter().map(u32::to_string);
        values.chain(self.passed_on.iter().cloned()).collect::<Vec<_>>().join(",")
    }
}

/// `L`, `15W`, `5L`, `5#2`: only the syntax is checked here; the matcher checks the meaning.
fn special(item: &str, place: &FieldDefinition) -> Result<String, String> {
    let is_value = |text: &str| value(text, place).map(|value| value.to_string());
    match item {
        _ if place.special.is_empty() => Err("special days are not allowed in this field".to_owned()),
        "L" | "LW" if place.special == "LW" => Ok(item.to_owned()),
        _ => {
            let cut = item.find(['L', 'W', '#']).unwrap_or(item.len());
            let (day, mark) = item.split_at(cut);
            let known = match mark {
                "W" => place.special.contains('W'),
                "L" | "#1" | "#2" | "#3" | "#4" | "#5" | "#L" => place.special.contains('#'),
                _ => false,
            };
            if known { Ok(is_value(day)? + mark) } else { Err("unknown special day".to_owned()) }
        }
    }
}

fn expand(item: &str, place: &FieldDefinition) -> Result<Vec<u32>, String> {
    let (span, step) = match item.split_once('/') {
        None => (item, None),
        Some((span, step)) => (span, Some(count(step)?)),
    };
    if step == Some(0) {
        return Err("a step must be at least 1".to_owned());
    }
    let stride = step.unwrap_or(1);
    let (low, high) = match (span, span.split_once('-')) {
        ("*", _) => (place.least, place.most),
        (_, Some((low, high))) => {
            let (from, to) = (value(low, place)?, value(high, place)?);
            // Sunday to Sunday under its two numbers is the whole week; `3-3` is one day.
            if from == to && low != high { (place.least, place.most) } else { (from, to) }
        }
        (_, None) => {
            let from = value(span, place)?;
            (from, if step.is_some() { place.most } else { from })
        }
    };
    if low <= high {
        return Ok(steps(low, high, stride));
    }
    // A range that wraps continues at the beginning, where stock begins its steps.
    let mut values = steps(low, place.most, stride);
    let last = values.last().copied().unwrap_or(low);
    let left = place.most - last;
    let skipped = if stride > left + 1 { stride - left } else { 0 };
    values.extend(steps(place.least.saturating_add(skipped), high, stride));
    Ok(values)
}

fn steps(low: u32, high: u32, stride: u32) -> Vec<u32> {
    (low..=high).step_by(stride as usize).collect()
}

fn count(text: &str) -> Result<u32, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` is not a number"));
    }
    // A number that does not fit is above every bound anyway.
    Ok(text.parse().unwrap_or(u32::MAX))
}

fn value(text: &str, place: &FieldDefinition) -> Result<u32, String> {
    let named = place.names.iter().position(|name| *name == text).and_then(|at| u32::try_from(at).ok());
    let number = match named {
        Some(position) => position + place.least,
        None => count(text)?,
    };
    let number = if place.names.len() == 7 && number == 7 { 0 } else { number };
    if (place.least..=place.most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{text} is not between {} and {}", place.least, place.most))
    }
}
