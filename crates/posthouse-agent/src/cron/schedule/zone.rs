//! Time zone of schedules.

use jiff::tz::TimeZone;

/// Environment variable that takes precedence over the configuration.
const VARIABLE: &str = "HERMES_TIMEZONE";

/// The zone in `HERMES_TIMEZONE`, otherwise the configured one, otherwise the system's. An unknown name is
/// logged, and the system's zone is used.
pub fn zone(configured: Option<&str>) -> TimeZone {
    let of_environment = std::env::var(VARIABLE).ok();
    choose(of_environment.as_deref(), configured).unwrap_or_else(TimeZone::system)
}

fn choose(of_environment: Option<&str>, configured: Option<&str>) -> Option<TimeZone> {
    let name =
        [of_environment, configured].into_iter().flatten().map(str::trim).find(|name| !name.is_empty())?;
    match TimeZone::get(name) {
        Ok(zone) => Some(zone),
        Err(_) => {
            tracing::warn!(zone = name, "unknown time zone; using the system's");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    fn name(of_environment: Option<&str>, configured: Option<&str>) -> Option<String> {
        choose(of_environment, configured).and_then(|zone| zone.iana_name().map(str::to_owned))
    }

    #[test]
    fn the_environments_zone_comes_before_the_configs() {
        assert_eq!(name(Some("Europe/Berlin"), Some("Asia/Kolkata")).as_deref(), Some("Europe/Berlin"));
        assert_eq!(name(Some("  "), Some("Asia/Kolkata")).as_deref(), Some("Asia/Kolkata"));
        assert_eq!(name(None, None), None);
    }

    #[test]
    fn an_unknown_zone_falls_back_to_the_systems_and_not_to_the_config() {
        assert_eq!(name(Some("Mars/Olympus"), Some("Asia/Kolkata")), None);
    }
}
