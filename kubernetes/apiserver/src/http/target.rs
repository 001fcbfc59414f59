//! What a path under `/api` or `/apis` points at.

use super::query::decode;

/// A resource path, taken apart. Whether it exists is for the router to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub plural: String,
    pub name: String,
    pub subresource: String,
    /// The old form `/watch/...`.
    pub watch: bool,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false));
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut rest: Vec<String> = parts.collect();
        let watch = rest.first().is_some_and(|part| part == "watch") && rest.len() > 1;
        if watch {
            rest.remove(0);
        }
        let mut target = Self { group, version, watch, ..Self::default() };
        let core_namespace_resource =
            target.group.is_empty() && rest.len() == 3 && matches!(rest[2].as_str(), "status" | "finalize");
        if rest.first().is_some_and(|part| part == "namespaces") && rest.len() > 2 && !core_namespace_resource {
            target.namespace.clone_from(&rest[1]);
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        target.plural = rest.next()?;
        target.name = rest.next().unwrap_or_default();
        target.subresource = rest.next().unwrap_or_default();
        if rest.next().is_some() {
            // Only proxies go deeper, and nothing is proxied here; a name no subresource has leads to 404.
            target.subresource.push('/');
        }
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let shown = match Target::parse(path) {
            None => "none".to_owned(),
            Some(Target { group, version, namespace, plural, name, subresource, watch }) => {
                format!("{group}|{version}|{namespace}|{plural}|{name}|{subresource}|{watch}")
            }
        };
        assert_eq!(shown, expected, "{path}");
    }

    #[test]
    fn paths_are_taken_apart() {
        check("/api/v1/nodes", "|v1||nodes|||false");
        check("/api/v1/nodes/a/status", "|v1||nodes|a|status|false");
        check("/api/v1/namespaces/x", "|v1||namespaces|x||false");
        check("/api/v1/namespaces/x/finalize", "|v1||namespaces|x|finalize|false");
        check("/api/v1/namespaces/x/pods", "|v1|x|pods|||false");
        check("/api/v1/namespaces/x/pods/p/eviction", "|v1|x|pods|p|eviction|false");
        check("/api/v1/watch/pods", "|v1||pods|||true");
        check("/apis/apps/v1/namespaces/x/deployments/d%2Fe", "apps|v1|x|deployments|d/e||false");
        check("/apis/apps/v1", "none");
        check("/healthz", "none");
    }
}
