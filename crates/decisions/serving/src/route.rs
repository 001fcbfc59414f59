//! Parses the path of a request. Only exact matches count: paths are not normalized, and there are no redirects.

/// The resource that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// The config of a pool.
    Config(&'a str),
    /// A machine's report about its first boot, for its pool.
    Report(&'a str),
    /// The daemon's binary, by its SHA-256 sum in lower-case hexadecimal.
    Daemon(&'a str),
    Health,
    Ready,
    Metrics,
    Nowhere,
}

/// Kubernetes allows no longer name, so a longer one cannot be a pool's.
const LONGEST_NAME: usize = 253;

pub fn route(path: &str) -> Route<'_> {
    match path {
        "/healthz" => Route::Health,
        "/readyz" => Route::Ready,
        "/metrics" => Route::Metrics,
        _ => match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
            Some(("config", pool)) if is_name(pool) => Route::Config(pool),
            Some(("report", pool)) if is_name(pool) => Route::Report(pool),
            Some(("daemon", sum)) if is_sum(sum) => Route::Daemon(sum),
            _ => Route::Nowhere,
        },
    }
}

fn is_sum(sum: &str) -> bool {
    sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_name(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= LONGEST_NAME
        && bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|byte| is_alphanumeric(byte) || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_the_whole_rest_of_the_path() {
        assert_eq!(route("/config/worker"), Route::Config("worker"));
        assert_eq!(route("/config/infra-2.gpu"), Route::Config("infra-2.gpu"));
    }

    #[test]
    fn the_daemon_is_found_by_a_whole_sum_only() {
        let sum = "0123456789abcdef".repeat(4);
        assert_eq!(route(&format!("/daemon/{sum}")), Route::Daemon(&sum));
        for path in [format!("/daemon/{}", sum.to_uppercase()), format!("/daemon/{}", &sum[1..]), "/daemon/".to_owned()]
        {
            assert_eq!(route(&path), Route::Nowhere, "for {path}");
        }
    }

    #[test]
    fn paths_that_are_not_exact_are_not_found() {
        let long = format!("/config/{}", "a".repeat(10_000_000));
        for path in [
            "/config",
            "/config/",
            "/config/a/b",
            "/config/worker/",
            "//config/worker",
            "/config/../config/worker",
            "/config/%77orker",
            "/config/Worker",
            "/config/.",
            "/config/-a",
            "",
            "/",
            &long,
        ] {
            assert_eq!(route(path), Route::Nowhere, "for {:?}", &path[..path.len().min(40)]);
        }
    }
}
