//! `pods/log`: what a container has written, as whoever plays the kubelet supplies it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use schema::FieldError;
use serde_json::Value;

use crate::{
    http::{Body, Query, respond},
    object::{Name, text},
    server::Api,
    status::{Answer, Failure},
    verbs::Request,
};

/// The log that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLog {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The container in the pod.
    pub container: String,
}

/// Supplies the whole log of a container as it is now, oldest line first; `None` if there is none.
pub(crate) type PodLogs = Arc<dyn Fn(&PodLog) -> Option<String> + Send + Sync>;

/// How often a followed log is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn get(request: &Request<'_>) -> Answer<Response<Body>> {
    let Request { api, call, resource, .. } = *request;
    let name = request.key(request.name).name;
    let pod = api.store.get(&resource.collection, &name).ok_or_else(|| request.not_found())?.value();
    let container = container(request.name, &pod, call.query.text("container"))?;
    let shown_part = Part::of(request.name, &call.query)?;
    // A pod that is nowhere has written nothing.
    if text(&pod["spec"]["nodeName"]).is_empty() {
        return Ok(plain(respond::text(204, "")));
    }
    let asked =
        PodLog { namespace: request.namespace.to_owned(), pod: request.name.to_owned(), container: container.clone() };
    let Some(log) = api.logs.as_ref().and_then(|logs| logs(&asked)) else {
        let why = format!("container \"{container}\" in pod \"{}\" is waiting to start: ContainerCreating", asked.pod);
        return Err(Failure::bad_request(why));
    };
    let shown = shown_part.cut(&log).to_owned();
    if !call.query.flag("follow") {
        return Ok(plain(respond::leisurely_text(shown)));
    }
    let follower = Follower { api: Arc::clone(api), asked, name, seen: log.len(), first: Some(shown) };
    Ok(plain(respond::leisurely_stream(futures::stream::unfold(follower, |mut follower| async move {
        follower.next().await.map(|chunk| (chunk, follower))
    }))))
}

fn plain(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// The container that is meant: the one named, the default, or the only one.
pub(super) fn container(name: &str, pod: &Value, wanted: &str) -> Answer<String> {
    let of = |field: &str| -> Vec<&str> {
        let list = pod["spec"][field].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|container| text(&container["name"])).collect()
    };
    let (main, first) = (of("containers"), of("initContainers"));
    if !wanted.is_empty() {
        let known = main.iter().chain(&first).chain(&of("ephemeralContainers")).any(|own| *own == wanted);
        let refused = || Failure::bad_request(format!("container {wanted} is not valid for pod {name}"));
        return if known { Ok(wanted.to_owned()) } else { Err(refused()) };
    }
    match main.as_slice() {
        [only] => Ok((*only).to_owned()),
        _ => {
            let all = [first, main].concat().join(" ");
            let message = format!("a container name must be specified for pod {name}, choose one of: [{all}]");
            Err(Failure::bad_request(message))
        }
    }
}

/// The part of a log that is asked for.
#[derive(Debug, Default)]
struct Part {
    lines: Option<usize>,
    bytes: Option<usize>,
}

impl Part {
    fn of(pod: &str, query: &Query) -> Answer<Self> {
        let mut errors = Vec::new();
        let mut number = |key: &str, least: i64| -> Answer<Option<usize>> {
            let text = query.text(key);
            if text.is_empty() {
                return Ok(None);
            }
            let asked: i64 = text
                .parse()
                .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?;
            if asked < least {
                let detail = format!("must be greater than {}", if least == 0 { "or equal to 0" } else { "0" });
                errors.push(FieldError::invalid(key, asked, detail));
            }
            Ok(usize::try_from(asked).ok())
        };
        let part = Self { lines: number("tailLines", 0)?, bytes: number("limitBytes", 1)? };
        if errors.is_empty() { Ok(part) } else { Err(Failure::invalid("", "PodLogOptions", pod, &errors)) }
    }

    fn cut<'a>(&self, log: &'a str) -> &'a str {
        let mut shown = log;
        if let Some(lines) = self.lines {
            let ended = shown.strip_suffix('\n').unwrap_or(shown);
            let start = match lines {
                0 => shown.len(),
                lines => ended.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1),
            };
            shown = &shown[start..];
        }
        if let Some(bytes) = self.bytes {
            let end = (0..=bytes.min(shown.len())).rev().find(|end| shown.is_char_boundary(*end));
            shown = &shown[..end.unwrap_or(0)];
        }
        shown
    }
}

/// Sends what is added to a log until the pod is gone.
struct Follower {
    api: Arc<Api>,
    asked: PodLog,
    name: Name,
    seen: usize,
    first: Option<String>,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first.into());
        }
        let mut stopping = self.api.stopping.clone();
        loop {
            tokio::select! {
                () = crate::server::stopped(&mut stopping) => return None,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.api.store.get("/pods", &self.name)?;
            let log = self.api.logs.as_ref().and_then(|logs| logs(&self.asked))?;
            // A log that became shorter was begun anew.
            let start = if log.len() < self.seen { 0 } else { self.seen };
            self.seen = log.len();
            if let Some(added) = log.get(start..).filter(|added| !added.is_empty()) {
                return Some(Bytes::copy_from_slice(added.as_bytes()));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: &str) {
        let part = Part::of("p", &Query::parse(query)).unwrap();
        assert_eq!(part.cut("one\ntwo\nthrée\n"), expected, "{query}");
    }

    #[test]
    fn logs_are_cut_from_either_end() {
        check("", "one\ntwo\nthrée\n");
        check("tailLines=1", "thrée\n");
        check("tailLines=2", "two\nthrée\n");
        check("tailLines=9", "one\ntwo\nthrée\n");
        check("tailLines=0", "");
        check("limitBytes=5", "one\nt");
        check("tailLines=1&limitBytes=4", "thr");
        assert_eq!(Part::of("p", &Query::parse("tailLines=x")).unwrap_err().code, 400);
        assert_eq!(Part::of("p", &Query::parse("tailLines=-1")).unwrap_err().code, 422);
    }
}
