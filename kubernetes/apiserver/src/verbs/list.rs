//! List: consistent at one version, in pages if asked, selected by labels and fields.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::Response;
use schema::{
    FieldError,
    selector::{FieldSelector, LabelSelector},
};
use serde_json::{Value, json};

use super::{Request, convert, read::reached, shape};
use crate::{
    http::{Body, Shape, respond},
    object::{Name, Object, text},
    registry::Resource,
    status::{Answer, Failure},
    store::{Earlier, Past},
};

/// What a list or watch selects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Set when a selectable field of a custom resource is asked for, which needs the parsed object.
    parses: bool,
}

impl Selection {
    pub(crate) fn of(request: &Request<'_>) -> Answer<Self> {
        let query = &request.call.query;
        check_limit(request)?;
        let bad = |error: String| Failure::bad_request(error);
        let labels = schema::selector::labels(query.text("labelSelector")).map_err(bad)?;
        let fields = schema::selector::fields(query.text("fieldSelector")).map_err(bad)?;
        let mut parses = false;
        for requirement in fields.requirements() {
            parses |= known(request.resource, &requirement.field)?;
        }
        Ok(Self { labels, fields, parses })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The place of the one object this selects, if it cannot select more: nobody has to look at the others.
    pub(crate) fn only(&self, resource: &Resource, namespace: &str) -> Option<Name> {
        let name = self.fields.exact("metadata.name")?;
        let namespace = if resource.namespaced { namespace } else { "" };
        (!resource.namespaced || !namespace.is_empty()).then(|| Name::new(namespace, name))
    }

    pub(crate) fn matches(&self, resource: &Resource, object: &Object) -> bool {
        if self.is_empty() {
            return true;
        }
        if !self.labels.is_empty() && !self.labels.matches_by(|key| object.labels.get(key)) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let value = if self.parses { object.value() } else { Value::Null };
        self.fields.matches(|field| match field {
            "metadata.name" => Cow::Borrowed(object.name()),
            "metadata.namespace" => Cow::Borrowed(object.namespace()),
            field => match resource.rules.field(convert::stored_field(resource, field)) {
                Some(at) => Cow::Borrowed(object.fields.get(at).map(|field| &**field).unwrap_or_default()),
                None => Cow::Owned(builtin::fields::at(&value, field)),
            },
        })
    }
}

/// Whether the field can be selected on, and if so whether it must be read from the object.
fn known(resource: &Resource, field: &str) -> Answer<bool> {
    if matches!(field, "metadata.name" | "metadata.namespace") {
        return Ok(false);
    }
    let stored = convert::stored_field(resource, field);
    if resource.rules.field(stored).is_some() {
        return Ok(false);
    }
    if let Some(custom) = &resource.custom {
        return if custom.selectable.iter().any(|path| path == field) {
            Ok(true)
        } else {
            Err(Failure::bad_request(format!("field label not supported: {field}")))
        };
    }
    if !resource.rules.has_fields() {
        return Err(Failure::bad_request(format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )));
    }
    Err(Failure::bad_request(format!("field label not supported: {field}")))
}

/// One page of a list.
struct Page {
    objects: Vec<Arc<Object>>,
    version: u64,
    next: Option<Name>,
    remaining: Option<usize>,
}

pub(crate) async fn list(request: &Request<'_>) -> Answer<Response<Body>> {
    let selection = Selection::of(request)?;
    check_options(request)?;
    let page = page(request, &selection)?;
    respond_with(request, &page).await
}

/// Everything the request selects, for deletions.
pub(crate) fn selected(request: &Request<'_>) -> Answer<Vec<Arc<Object>>> {
    let selection = Selection::of(request)?;
    Ok(page(request, &selection)?.objects)
}

fn check_limit(request: &Request<'_>) -> Answer<()> {
    match request.call.query.text("limit") {
        "" => Ok(()),
        text if text.parse::<i64>().is_ok() => Ok(()),
        text => Err(Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
    }
}

fn check_options(request: &Request<'_>) -> Answer<()> {
    let query = &request.call.query;
    let timeout = query.text("timeoutSeconds");
    if !timeout.is_empty() && timeout.parse::<i64>().is_err() {
        return Err(Failure::bad_request(format!("strconv.ParseInt: parsing {timeout:?}: invalid syntax")));
    }
    let (version, matching) = (query.text("resourceVersion"), query.text("resourceVersionMatch"));
    let mut errors = Vec::new();
    const FIELD: &str = "resourceVersionMatch";
    if !matching.is_empty() {
        if version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if !query.text("continue").is_empty() {
            errors.push(FieldError::forbidden(FIELD, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""].map(str::to_owned);
            errors.push(FieldError::not_supported(FIELD, matching, &supported));
        }
        if matching == "Exact" && version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
    }
    if query.get("sendInitialEvents").is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

fn page(request: &Request<'_>, selection: &Selection) -> Answer<Page> {
    let query = &request.call.query;
    let limit = query.text("limit").parse::<i64>().ok().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    let (version, token) = (query.text("resourceVersion"), query.text("continue"));
    let exact = query.text("resourceVersionMatch") == "Exact";
    let mut after = None;
    let mut at = None;
    let mut left = None;
    if !token.is_empty() {
        let (start, position, rest) = read_token(request, token)?;
        if !version.is_empty() && version != "0" {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        after = Some(position);
        at = start;
        left = rest.filter(|_| start.is_some());
    } else if !version.is_empty() {
        let asked = reached(request, version)?;
        // A limited list from a version, without a match rule, means exactly that version.
        let legacy_exact = limit > 0 && query.text("resourceVersionMatch").is_empty() && asked > 0;
        at = (exact || legacy_exact).then_some(asked);
    }
    collect(request, selection, limit, at, after.as_ref(), left)
}

fn collect(
    request: &Request<'_>,
    selection: &Selection,
    limit: usize,
    at: Option<u64>,
    after: Option<&Name>,
    left: Option<usize>,
) -> Answer<Page> {
    let resource = request.resource;
    let index = request.api.store.read();
    let version = at.unwrap_or_else(|| index.version());
    let mut page = Page { objects: Vec::new(), version, next: None, remaining: None };
    let Some(collection) = index.collection(&resource.collection) else { return Ok(page) };
    let namespace = Some(request.namespace).filter(|namespace| resource.namespaced && !namespace.is_empty());
    let now = version == index.version() || version >= collection.last_version();
    let earlier = match if now { Past::Known(Earlier::default()) } else { collection.at(version) } {
        Past::Known(earlier) => earlier,
        Past::Forgotten if after.is_some() => return Err(expired_token()),
        Past::Forgotten => return Err(Failure::expired("The resourceVersion for the provided list is too old.")),
    };
    if let Some(only) = selection.only(resource, request.namespace) {
        let found = earlier.get(&only).map_or_else(|| collection.get(&only), Option::as_ref);
        let found = found.filter(|object| after.is_none_or(|after| object.key.name > *after));
        fill(&mut page, resource, selection, (limit, left), found.into_iter());
    } else if earlier.is_empty() {
        fill(&mut page, resource, selection, (limit, left), collection.iter(namespace, after));
    } else {
        fill(&mut page, resource, selection, (limit, left), collection.iter_at(&earlier, namespace, after));
    }
    Ok(page)
}

fn fill<'a>(
    page: &mut Page,
    resource: &Resource,
    selection: &Selection,
    (limit, left): (usize, Option<usize>),
    objects: impl Iterator<Item = &'a Arc<Object>>,
) {
    let mut objects = objects;
    let selected = objects.by_ref().filter(|object| selection.matches(resource, object)).cloned();
    if limit == 0 {
        page.objects = selected.collect();
        return;
    }
    page.objects = selected.take(limit).collect();
    // Whether any of the rest is selected is for the next page to find out.
    let rest = objects.next().is_some();
    if rest {
        page.next = page.objects.last().map(|object| object.key.name.clone());
        if selection.is_empty() {
            let known = left.and_then(|left| left.checked_sub(page.objects.len())).filter(|rest| *rest > 0);
            page.remaining = Some(known.unwrap_or_else(|| 1 + objects.count()));
        }
    }
}

/// `left` is ours: pages of one version count on from each other, so that only the first looks at all that follows.
fn print_token(resource: &Resource, version: i64, name: &Name, left: Option<usize>) -> String {
    let start = match resource.namespaced {
        true => format!("{}/{}\u{0}", name.namespace, name.name),
        false => format!("{}\u{0}", name.name),
    };
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": start, "left": left}).to_string())
}

/// The version (none: the newest) and the last name of the page before, and how many were left after it if it said so.
fn read_token(request: &Request<'_>, token: &str) -> Answer<(Option<u64>, Name, Option<usize>)> {
    let invalid = |why: &str| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let data = URL_SAFE_NO_PAD.decode(token).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) => at,
            _ => token.len() / 4 * 4,
        };
        invalid(&format!("illegal base64 data at input byte {at}"))
    })?;
    let value: Value = serde_json::from_slice(&data).map_err(|error| invalid(&error.to_string()))?;
    if text(&value["v"]) != "meta.k8s.io/v1" {
        return Err(Failure::bad_request("invalid continue token: server does not recognize this encoded version"));
    }
    let start = text(&value["start"]).trim_end_matches('\u{0}');
    let version = value["rv"].as_i64().unwrap_or(0);
    if version == 0 || start.is_empty() {
        return Err(invalid("it names no version or no start"));
    }
    let (namespace, name) = match request.resource.namespaced {
        true => start.split_once('/').ok_or_else(|| invalid(start))?,
        false => ("", start),
    };
    if !request.namespace.is_empty() && namespace != request.namespace && request.resource.namespaced {
        return Err(invalid(start));
    }
    let left = value["left"].as_u64().and_then(|left| usize::try_from(left).ok());
    Ok((u64::try_from(version).ok(), Name::new(namespace, name), left))
}

fn expired_token() -> Box<Failure> {
    Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
    )
}

async fn respond_with(request: &Request<'_>, page: &Page) -> Answer<Response<Body>> {
    let Request { call, resource, .. } = *request;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] =
            print_token(resource, i64::try_from(page.version).unwrap_or(-1), next, page.remaining).into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let accept = &call.accept;
    let pretty = accept.pretty || call.query.flag("pretty");
    match accept.shape {
        Shape::Table => {
            let items = converted(request, page).await?;
            let table = shape::table(request, &items, &metadata);
            Ok(respond::value(200, &table, accept.yaml, pretty))
        }
        Shape::Metadata => {
            let items: Vec<Value> =
                page.objects.iter().map(|object| shape::metadata(object.value(), &accept.shape_version)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{}", accept.shape_version),
                "metadata": metadata, "items": items,
            });
            Ok(respond::value(200, &list, accept.yaml, pretty))
        }
        Shape::Object if convert::asks(resource) => {
            let items = converted(request, page).await?;
            let list = json!({
                "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items,
            });
            Ok(respond::value(200, &list, accept.yaml, pretty))
        }
        Shape::Object => Ok(respond::parts(200, parts(resource, &metadata, &page.objects), accept.yaml, pretty)),
    }
}

/// The objects of a page in the version of the request.
async fn converted(request: &Request<'_>, page: &Page) -> Answer<Vec<Value>> {
    let values = page.objects.iter().map(|object| object.value()).collect();
    convert::all_from_stored(request.api, request.resource, values).await
}

/// The text of the list in parts, most of which are the bytes of its objects.
fn parts(resource: &Resource, metadata: &Value, objects: &[Arc<Object>]) -> Vec<Bytes> {
    let head = format!(
        r#"{{"kind":{},"apiVersion":{},"metadata":{metadata},"items":["#,
        Value::from(resource.list_kind.as_str()),
        Value::from(resource.api_version()),
    );
    let leading = format!(
        r#"{{"apiVersion":{},"kind":{},"#,
        Value::from(resource.api_version()),
        Value::from(resource.kind.as_str())
    );
    let mut parts = Vec::with_capacity(2 * objects.len() + 2);
    parts.push(head.into());
    for (position, object) in objects.iter().enumerate() {
        let bytes = bytes_of(resource, object);
        // Items of built-in lists do not repeat their kind; those of custom resources do.
        let shortened = resource.custom.is_none() && bytes.starts_with(leading.as_bytes());
        let (opening, rest) = if shortened { (",{", bytes.slice(leading.len()..)) } else { (",", bytes) };
        let opening = if position == 0 { &opening[1..] } else { opening };
        parts.extend([Bytes::from_static(opening.as_bytes()), rest]);
    }
    parts.push(Bytes::from_static(b"]}\n"));
    parts
}

/// The object in the version of the resource, as text, where nobody has to be asked to convert it.
pub(crate) fn bytes_of(resource: &Resource, object: &Object) -> Bytes {
    if convert::is_served_form(resource, object) {
        return object.json.clone();
    }
    let value = convert::plainly(resource, object.value());
    crate::object::Draft::new(object.key.clone(), &value).at(object.version).json
}
