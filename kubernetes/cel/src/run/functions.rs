//! Every function that expressions may call, by the values it is given.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use super::{
    super::library::{FORMATS, OF_PATCHES},
    super::value::{Access, Fault, Key, List, Outcome, Value},
    format, map_of, net, number, operators,
    quantity::Quantity,
    semver::Version,
    texts,
    time::{self, Moment},
};
use crate::names;

/// Calls a function; what it is called on is the first of its arguments.
pub(super) fn call(function: &str, args: &[Value]) -> Outcome {
    operators::call(function, args)
        .or_else(|| conversions(function, args))
        .or_else(|| of_texts(function, args))
        .or_else(|| of_lists(function, args))
        .or_else(|| of_optionals(function, args))
        .or_else(|| of_times(function, args))
        .or_else(|| of_kubernetes(function, args))
        .or_else(|| of_networks(function, args))
        .or_else(|| of_access(function, args))
        .or_else(|| of_patches(function, args))
        .unwrap_or_else(|| {
            // Functions of the language itself say less than those of libraries.
            match function {
                "contains" | "startsWith" | "endsWith" | "matches" => return Fault::overload(),
                "size" => return Fault::said("no such overload: size"),
                _ => {}
            }
            let types: Vec<String> = args.iter().map(|value| value.type_name().to_string()).collect();
            Fault::said(format!("no such overload: {function}({})", types.join(", ")))
        })
}

fn of_patches(function: &str, args: &[Value]) -> Option<Outcome> {
    match (function, args) {
        (OF_PATCHES, [Value::Text(key)]) => Some(Ok(key.replace('~', "~0").replace('/', "~1").into())),
        _ => None,
    }
}

fn number_of(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn said<T>(found: Option<T>, otherwise: impl FnOnce() -> String) -> Result<T, Fault> {
    found.ok_or_else(|| Fault::Said(otherwise()))
}

/// Functions that make a value of another type. Those of constants are called once and for all.
fn conversions(function: &str, args: &[Value]) -> Option<Outcome> {
    let [value] = args else { return None };
    let from_text = |to: &str| format!("type conversion error from 'string' to '{to}'");
    let int_overflow = || "integer overflow".to_owned();
    let uint_overflow = || "unsigned integer overflow".to_owned();
    Some(match (function, value) {
        ("dyn", value) => Ok(value.clone()),
        ("type", value) => Ok(Value::Type(value.type_name())),
        ("int", Value::Int(_)) | ("uint", Value::Uint(_)) | ("double", Value::Double(_)) => Ok(value.clone()),
        ("bool", Value::Bool(_)) | ("string", Value::Text(_)) | ("bytes", Value::Bytes(_)) => Ok(value.clone()),
        ("timestamp", Value::Time(_)) | ("duration", Value::Duration(_)) => Ok(value.clone()),
        ("int", Value::Uint(from)) => said(i64::try_from(*from).ok(), int_overflow).map(Value::Int),
        ("int", Value::Double(from)) => {
            let fits = *from > i64::MIN as f64 && *from < i64::MAX as f64;
            said(fits.then_some(*from as i64), int_overflow).map(Value::Int)
        }
        ("int", Value::Text(from)) => said(from.parse().ok(), || from_text("int")).map(Value::Int),
        ("int", Value::Duration(from)) => Ok(Value::Int(*from)),
        ("int", Value::Time(from)) => Ok(Value::Int(from.seconds())),
        ("uint", Value::Int(from)) => said(u64::try_from(*from).ok(), uint_overflow).map(Value::Uint),
        ("uint", Value::Double(from)) => {
            let fits = *from >= 0.0 && *from < u64::MAX as f64;
            said(fits.then_some(*from as u64), uint_overflow).map(Value::Uint)
        }
        ("uint", Value::Text(from)) => {
            let plain = !from.starts_with('+');
            said(from.parse().ok().filter(|_| plain), || from_text("uint")).map(Value::Uint)
        }
        ("double", Value::Int(from)) => Ok(Value::Double(*from as f64)),
        ("double", Value::Uint(from)) => Ok(Value::Double(*from as f64)),
        ("double", Value::Text(from)) => said(number::double(from), || from_text("double")).map(Value::Double),
        ("bool", Value::Text(from)) => said(number::truth(from), || from_text("bool")).map(Value::Bool),
        ("bytes", Value::Text(from)) => Ok(Value::Bytes(from.as_bytes().into())),
        ("string", Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_)) => Ok(value.to_string().into()),
        ("string", Value::Bytes(from)) => {
            let text = std::str::from_utf8(from).ok();
            said(text, || "invalid UTF-8 in bytes, cannot convert to string".to_owned()).map(Value::from)
        }
        ("string", Value::Duration(from)) => Ok(time::duration_text(*from).into()),
        ("string", Value::Time(from)) => Ok(from.text().into()),
        ("string", Value::Ip(from)) => Ok(from.to_string().into()),
        ("string", Value::Cidr(from)) => Ok(from.to_string().into()),
        ("timestamp", Value::Int(from)) => Moment::of_seconds(*from).map(Value::Time),
        ("timestamp", Value::Text(from)) => said(Moment::parse(from), || from_text("google.protobuf.Timestamp"))
            .and_then(Moment::checked)
            .map(Value::Time),
        ("duration", Value::Int(from)) => Ok(Value::Duration(*from)),
        ("duration", Value::Text(from)) => {
            said(time::duration(from), || from_text("google.protobuf.Duration")).map(Value::Duration)
        }
        _ => return None,
    })
}

fn of_texts(function: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (function, args) {
        ("size", [Value::Text(text)]) => Ok(number_of(text.chars().count())),
        ("contains", [Value::Text(text), Value::Text(part)]) => Ok(text.contains(&**part).into()),
        ("startsWith", [Value::Text(text), Value::Text(part)]) => Ok(text.starts_with(&**part).into()),
        ("endsWith", [Value::Text(text), Value::Text(part)]) => Ok(text.ends_with(&**part).into()),
        ("matches", [Value::Text(text), Value::Text(wanted)]) => {
            texts::pattern(wanted).map(|wanted| wanted.is_match(text).into())
        }
        ("charAt", [Value::Text(text), Value::Int(at)]) => texts::char_at(text, *at),
        ("indexOf", [Value::Text(text), Value::Text(part)]) => texts::index_of(text, part, 0),
        ("indexOf", [Value::Text(text), Value::Text(part), Value::Int(from)]) => texts::index_of(text, part, *from),
        ("lastIndexOf", [Value::Text(text), Value::Text(part)]) => texts::last_index_of(text, part, None),
        ("lastIndexOf", [Value::Text(text), Value::Text(part), Value::Int(from)]) => {
            texts::last_index_of(text, part, Some(*from))
        }
        ("lowerAscii", [Value::Text(text)]) => Ok(text.to_ascii_lowercase().into()),
        ("upperAscii", [Value::Text(text)]) => Ok(text.to_ascii_uppercase().into()),
        ("replace", [Value::Text(text), Value::Text(from), Value::Text(to)]) => {
            Ok(texts::replace(text, from, to, -1).into())
        }
        ("replace", [Value::Text(text), Value::Text(from), Value::Text(to), Value::Int(count)]) => {
            Ok(texts::replace(text, from, to, *count).into())
        }
        ("split", [Value::Text(text), Value::Text(separator)]) => Ok(texts::split(text, separator, -1).into()),
        ("split", [Value::Text(text), Value::Text(separator), Value::Int(count)]) => {
            Ok(texts::split(text, separator, *count).into())
        }
        ("substring", [Value::Text(text), Value::Int(start)]) => texts::substring(text, *start, None),
        ("substring", [Value::Text(text), Value::Int(start), Value::Int(end)]) => {
            texts::substring(text, *start, Some(*end))
        }
        ("trim", [Value::Text(text)]) => Ok(text.trim().into()),
        ("strings.quote", [Value::Text(text)]) => Ok(texts::quote(text).into()),
        ("format", [Value::Text(text), Value::List(values)]) => format::format(text, &values.items).map(Value::from),
        ("find", [Value::Text(text), Value::Text(wanted)]) => {
            illegal(texts::pattern(wanted)).map(|wanted| wanted.find(text).map_or("", |found| found.as_str()).into())
        }
        ("findAll", [Value::Text(text), Value::Text(wanted)]) => {
            illegal(texts::pattern(wanted)).map(|wanted| texts::find_all(text, &wanted, -1).into())
        }
        ("findAll", [Value::Text(text), Value::Text(wanted), Value::Int(count)]) => {
            illegal(texts::pattern(wanted)).map(|wanted| texts::find_all(text, &wanted, *count).into())
        }
        _ => return None,
    })
}

fn illegal<T>(found: Result<T, Fault>) -> Result<T, Fault> {
    found.map_err(|fault| Fault::Said(format!("Illegal regex: {fault}")))
}

fn is_texts(list: &List) -> bool {
    list.items.first().is_none_or(|first| matches!(first, Value::Text(_)))
}

fn of_lists(function: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (function, args) {
        ("size", [Value::Bytes(bytes)]) => Ok(number_of(bytes.len())),
        ("size", [Value::List(list)]) => Ok(number_of(list.items.len())),
        ("size", [Value::Map(map)]) => Ok(number_of(map.len())),
        ("join", [Value::List(list)]) if is_texts(list) => texts::join(&list.items, ""),
        ("join", [Value::List(list), Value::Text(separator)]) if is_texts(list) => texts::join(&list.items, separator),
        ("reverse", [Value::List(list)]) => Ok(list.items.iter().rev().cloned().collect::<Vec<_>>().into()),
        ("slice", [Value::List(list), Value::Int(start), Value::Int(end)]) => slice(list, *start, *end),
        ("flatten", [Value::List(list)]) => flatten(list, 1).map(Value::from),
        ("flatten", [Value::List(list), Value::Int(depth)]) => flatten(list, *depth).map(Value::from),
        ("lists.range", [Value::Int(count)]) => Ok((0..*count).map(Value::Int).collect::<Vec<_>>().into()),
        ("distinct", [Value::List(list)]) => {
            let mut seen: Vec<Value> = Vec::new();
            for item in &list.items {
                if !seen.iter().any(|own| item.equals(own).unwrap_or(false)) {
                    seen.push(item.clone());
                }
            }
            Ok(seen.into())
        }
        ("sort", [Value::List(list)]) => sort(list, list),
        ("@sortByAssociatedKeys", [Value::List(list), Value::List(keys)]) => sort(list, keys),
        ("cel.@mapInsert", [Value::Map(map), key, value]) => inserted(map, [(key.clone(), value)]),
        ("cel.@mapInsert", [Value::Map(map), Value::Map(more)]) => {
            inserted(map, more.iter().map(|(key, value)| (Value::from(key.clone()), value)))
        }
        ("isSorted", [Value::List(list)]) => {
            Ok(list.items.windows(2).all(|two| two[0].order(&two[1]) != Ok(Ordering::Greater)).into())
        }
        ("sum", [Value::List(list)]) => {
            let mut sum = match list.items.first() {
                None | Some(Value::Int(_)) => Value::Int(0),
                Some(Value::Uint(_)) => Value::Uint(0),
                Some(Value::Double(_)) => Value::Double(0.0),
                Some(Value::Duration(_)) => Value::Duration(0),
                Some(_) => return None,
            };
            for item in &list.items {
                match operators::call("_+_", &[sum, item.clone()])? {
                    Ok(next) => sum = next,
                    Err(fault) => return Some(Err(fault)),
                }
            }
            Ok(sum)
        }
        ("max", [Value::List(list)]) => extreme(list, "max", Ordering::Less),
        ("min", [Value::List(list)]) => extreme(list, "min", Ordering::Greater),
        ("indexOf", [Value::List(list), value]) => {
            let at = list.items.iter().position(|own| own.equals(value).unwrap_or(false));
            Ok(at.map_or(Value::Int(-1), number_of))
        }
        ("lastIndexOf", [Value::List(list), value]) => {
            let at = list.items.iter().rposition(|own| own.equals(value).unwrap_or(false));
            Ok(at.map_or(Value::Int(-1), number_of))
        }
        ("sets.contains", [Value::List(one), Value::List(two)]) => Ok(covers(one, two).into()),
        ("sets.equivalent", [Value::List(one), Value::List(two)]) => Ok((covers(one, two) && covers(two, one)).into()),
        ("sets.intersects", [Value::List(one), Value::List(two)]) => {
            Ok(two.items.iter().any(|item| has(one, item)).into())
        }
        _ => return None,
    })
}

fn has(list: &List, item: &Value) -> bool {
    list.items.iter().any(|own| own.equals(item).unwrap_or(false))
}

fn covers(list: &List, other: &List) -> bool {
    other.items.iter().all(|item| has(list, item))
}

/// Adds an entry that is not there yet.
pub(super) fn insert(map: &mut BTreeMap<Key, Value>, key: &Value, value: Value) -> Result<(), Fault> {
    let Some(own) = key.key() else { return Fault::overload() };
    if map.contains_key(&own) {
        return Fault::said(format!("insert failed: key {key} already exists"));
    }
    map.insert(own, value);
    Ok(())
}

fn inserted<'v>(map: &BTreeMap<Key, Value>, more: impl IntoIterator<Item = (Value, &'v Value)>) -> Outcome {
    let mut map = map.clone();
    for (key, value) in more {
        insert(&mut map, &key, value.clone())?;
    }
    Ok(Value::map(map))
}

fn slice(list: &List, start: i64, end: i64) -> Outcome {
    let length = list.items.len();
    let cannot = |why: &str| Fault::said(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return cannot("negative indexes not supported");
    };
    if from > to {
        return cannot("start index must be less than or equal to end index");
    }
    if length < to {
        return cannot(&format!("list is length {length}"));
    }
    Ok(list.items[from..to].to_vec().into())
}

fn flatten(list: &List, depth: i64) -> Result<Vec<Value>, Fault> {
    if depth < 0 {
        return Fault::said("level must be non-negative");
    }
    let mut flat = Vec::new();
    for item in &list.items {
        match item {
            Value::List(inner) if depth > 0 => flat.extend(flatten(inner, depth - 1)?),
            other => flat.push(other.clone()),
        }
    }
    Ok(flat)
}

fn sort(list: &List, keys: &List) -> Outcome {
    let Some(first) = keys.items.first() else { return Ok(list.items.clone().into()) };
    if keys.items.iter().any(|key| key.type_name() != first.type_name()) {
        return Fault::said("list elements must have the same type");
    }
    let mut both: Vec<(&Value, &Value)> = keys.items.iter().zip(&list.items).collect();
    both.sort_by(|one, two| one.0.order(two.0).unwrap_or(Ordering::Equal));
    Ok(both.into_iter().map(|(_, value)| value.clone()).collect::<Vec<_>>().into())
}

fn extreme(list: &List, name: &str, worse: Ordering) -> Outcome {
    let mut best: Option<&Value> = None;
    for item in &list.items {
        if best.is_none_or(|best| best.order(item) == Ok(worse)) {
            best = Some(item);
        }
    }
    said(best.cloned(), || format!("{name} called on empty list"))
}

fn of_optionals(function: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (function, args) {
        ("optional.of", [value]) => Ok(Value::optional(Some(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::optional((!value.is_zero()).then(|| value.clone()))),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let mut inner = Vec::new();
            for item in &list.items {
                match item {
                    Value::Optional(Some(value)) => inner.push(value.as_ref().clone()),
                    Value::Optional(None) => {}
                    other => return Some(Fault::said(format!("value {other} is not optional"))),
                }
            }
            Ok(inner.into())
        }
        ("value", [Value::Optional(inner)]) => {
            said(inner.as_ref().map(|inner| inner.as_ref().clone()), || "optional.none() dereference".to_owned())
        }
        ("hasValue", [Value::Optional(inner)]) => Ok(inner.is_some().into()),
        ("first", [Value::List(list)]) => Ok(Value::optional(list.items.first().cloned())),
        ("last", [Value::List(list)]) => Ok(Value::optional(list.items.last().cloned())),
        _ => return None,
    })
}

fn of_times(function: &str, args: &[Value]) -> Option<Outcome> {
    if !function.starts_with("get") {
        return None;
    }
    Some(match args {
        [Value::Time(moment)] => moment.part(function, None),
        [Value::Time(moment), Value::Text(zone)] => moment.part(function, Some(zone)),
        [Value::Duration(length)] => Ok(Value::Int(match function {
            "getHours" => length / 3_600_000_000_000,
            "getMinutes" => length / 60_000_000_000,
            "getSeconds" => length / 1_000_000_000,
            "getMilliseconds" => length / 1_000_000,
            _ => return None,
        })),
        _ => return None,
    })
}

fn of_kubernetes(function: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (function, args) {
        ("quantity", [Value::Text(text)]) => {
            Quantity::parse(text).map(Value::Quantity).map_err(|why| Fault::Said(why.to_owned()))
        }
        ("isQuantity", [Value::Text(text)]) => Ok(Quantity::parse(text).is_ok().into()),
        ("sign", [Value::Quantity(own)]) => Ok(own.sign().into()),
        ("isInteger", [Value::Quantity(own)]) => Ok(own.integer().is_some().into()),
        ("asInteger", [Value::Quantity(own)]) => {
            said(own.integer().map(Value::Int), || "cannot convert value to integer".to_owned())
        }
        ("asApproximateFloat", [Value::Quantity(own)]) => Ok(Value::Double(own.float())),
        ("add", [Value::Quantity(one), Value::Quantity(two)]) => Ok(Value::Quantity(one.add(two))),
        ("add", [Value::Quantity(one), Value::Int(two)]) => Ok(Value::Quantity(one.add(&Quantity::of(*two)))),
        ("sub", [Value::Quantity(one), Value::Quantity(two)]) => Ok(Value::Quantity(one.sub(two))),
        ("sub", [Value::Quantity(one), Value::Int(two)]) => Ok(Value::Quantity(one.sub(&Quantity::of(*two)))),
        ("semver", [Value::Text(text)]) => version(text, false),
        ("semver", [Value::Text(text), Value::Bool(loosely)]) => version(text, *loosely),
        ("isSemver", [Value::Text(text)]) => Ok(version(text, false).is_ok().into()),
        ("isSemver", [Value::Text(text), Value::Bool(loosely)]) => Ok(version(text, *loosely).is_ok().into()),
        ("major", [Value::Version(own)]) => Ok(part(own.numbers[0])),
        ("minor", [Value::Version(own)]) => Ok(part(own.numbers[1])),
        ("patch", [Value::Version(own)]) => Ok(part(own.numbers[2])),
        ("isGreaterThan" | "isLessThan" | "compareTo", [one, two]) => {
            let order = match (one, two) {
                (Value::Quantity(one), Value::Quantity(two)) => one.cmp(two),
                (Value::Version(one), Value::Version(two)) => one.cmp(two),
                _ => return None,
            };
            Ok(match function {
                "isGreaterThan" => order.is_gt().into(),
                "isLessThan" => order.is_lt().into(),
                _ => Value::Int(order as i64),
            })
        }
        ("format.named", [Value::Text(name)]) => {
            let known = FORMATS.iter().find(|known| ***known == **name);
            Ok(Value::optional(known.map(|name| Value::Format(name))))
        }
        ("validate", [Value::Format(format), Value::Text(text)]) => {
            let problems = problems(format, text);
            let problems = problems.into_iter().map(Value::from).collect::<Vec<_>>();
            Ok(Value::optional((!problems.is_empty()).then(|| problems.into())))
        }
        (name, []) => {
            let name = name.strip_prefix("format.")?;
            Ok(Value::Format(FORMATS.iter().find(|known| **known == name)?))
        }
        _ => return None,
    })
}

fn part(number: u64) -> Value {
    Value::Int(i64::from_ne_bytes(number.to_ne_bytes()))
}

fn version(text: &str, loosely: bool) -> Outcome {
    let read = if loosely { Version::parse_loosely(text) } else { Version::parse(text) };
    read.map(|version| Value::Version(Arc::new(version))).map_err(Fault::Said)
}

/// What keeps a text from being of a format.
fn problems(format: &str, text: &str) -> Vec<String> {
    let unless = |fits: bool, problem: &str| if fits { Vec::new() } else { vec![problem.to_owned()] };
    let masked = |text: &str| match text.len() > 1 && text.ends_with('-') {
        true => format!("{}a", &text[..text.len() - 1]),
        false => text.to_owned(),
    };
    match format {
        "dns1123Label" => names::is_label(text),
        "dns1123Subdomain" => names::is_subdomain(text),
        "dns1035Label" => names::is_label_1035(text),
        "qualifiedName" => names::is_qualified_name(text),
        "dns1123LabelPrefix" => names::is_label(&masked(text)),
        "dns1123SubdomainPrefix" => names::is_subdomain(&masked(text)),
        "dns1035LabelPrefix" => names::is_label_1035(&masked(text)),
        "labelValue" => names::is_label_value(text),
        "uri" => net::Url::parse_request(text).err().into_iter().collect(),
        "uuid" => unless(is_uuid(text), "does not match the UUID format"),
        "byte" => unless(is_base64(text), "invalid base64"),
        "date" => unless(text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date"),
        _ => unless(Moment::parse(&text.to_uppercase()).is_some(), "invalid datetime"),
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let joined: String = groups.concat();
    joined.len() == 32
        && joined.bytes().all(|byte| byte.is_ascii_hexdigit())
        && matches!(groups.iter().map(|group| group.len()).collect::<Vec<_>>().as_slice(), [8, 4, 4, 4, 12] | [32])
}

fn is_base64(text: &str) -> bool {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(text).is_ok()
}

fn of_networks(function: &str, args: &[Value]) -> Option<Outcome> {
    let network = |text: &str| {
        net::Cidr::parse(text)
            .map_err(|why| Fault::Said(format!("network address parse error during conversion from string: {why}")))
    };
    Some(match (function, args) {
        ("ip", [Value::Text(text)]) => net::address(text).map(Value::Ip).map_err(Fault::Said),
        ("ip", [Value::Cidr(own)]) => Ok(Value::Ip(own.address)),
        ("isIP", [Value::Text(text)]) => Ok(net::address(text).is_ok().into()),
        ("ip.isCanonical", [Value::Text(text)]) => {
            net::address(text).map(|found| (found.to_string() == **text).into()).map_err(Fault::Said)
        }
        ("family", [Value::Ip(own)]) => Ok(Value::Int(if own.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(own)]) => Ok(own.is_unspecified().into()),
        ("isLoopback", [Value::Ip(own)]) => Ok(own.is_loopback().into()),
        ("isLinkLocalMulticast", [Value::Ip(own)]) => Ok(net::is_link_local_multicast(own).into()),
        ("isLinkLocalUnicast", [Value::Ip(own)]) => Ok(net::is_link_local_unicast(own).into()),
        ("isGlobalUnicast", [Value::Ip(own)]) => Ok(net::is_global_unicast(own).into()),
        ("cidr", [Value::Text(text)]) => network(text).map(Value::Cidr),
        ("isCIDR", [Value::Text(text)]) => Ok(net::Cidr::parse(text).is_ok().into()),
        ("containsIP", [Value::Cidr(own), Value::Ip(other)]) => Ok(own.contains(*other).into()),
        ("containsIP", [Value::Cidr(own), Value::Text(text)]) => {
            net::address(text).map_or_else(|_| Fault::overload(), |other| Ok(own.contains(other).into()))
        }
        ("containsCIDR", [Value::Cidr(own), Value::Cidr(other)]) => Ok(own.covers(other).into()),
        ("containsCIDR", [Value::Cidr(own), Value::Text(text)]) => network(text).map(|other| own.covers(&other).into()),
        ("prefixLength", [Value::Cidr(own)]) => Ok(Value::Int(i64::from(own.length))),
        ("masked", [Value::Cidr(own)]) => Ok(Value::Cidr(own.masked())),
        ("url", [Value::Text(text)]) => match net::Url::parse(text) {
            Ok(url) => Ok(Value::Url(Arc::new(url))),
            Err(why) => Fault::said(format!("URL parse error during conversion from string: {why}")),
        },
        ("isURL", [Value::Text(text)]) => Ok(net::Url::parse_request(text).is_ok().into()),
        ("getScheme", [Value::Url(own)]) => Ok(own.scheme.as_str().into()),
        ("getHost", [Value::Url(own)]) => Ok(own.host.as_str().into()),
        ("getHostname", [Value::Url(own)]) => Ok(own.hostname().into()),
        ("getPort", [Value::Url(own)]) => Ok(own.port().into()),
        ("getEscapedPath", [Value::Url(own)]) => Ok(own.path.as_str().into()),
        ("getQuery", [Value::Url(own)]) => {
            let texts = |values: Vec<String>| values.into_iter().map(Value::from).collect::<Vec<_>>().into();
            Ok(map_of(own.query().into_iter().map(|(key, values)| (key, texts(values)))))
        }
        _ => return None,
    })
}

fn of_access(function: &str, args: &[Value]) -> Option<Outcome> {
    if let [Value::Decision(decision)] = args {
        return Some(Ok(match function {
            "allowed" => decision.allowed.into(),
            "reason" => decision.reason.as_str().into(),
            "errored" => (!decision.error.is_empty()).into(),
            "error" => decision.error.as_str().into(),
            _ => return None,
        }));
    }
    let [Value::Access(access), Value::Text(text), rest @ ..] = args else { return None };
    let mut access: Access = access.as_ref().clone();
    let text = text.to_string();
    match (function, rest) {
        ("path", []) => access.path = Some(text),
        ("group", []) => access.group = Some(text),
        ("serviceAccount", [Value::Text(name)]) => access.account = Some((text, name.to_string())),
        ("resource", []) => access.resource = Some(text),
        ("subresource", []) => access.subresource = text,
        ("namespace", []) => access.namespace = text,
        ("name", []) => access.name = text,
        ("fieldSelector", []) => access.selectors.push(("field", text)),
        ("labelSelector", []) => access.selectors.push(("label", text)),
        _ => return None,
    }
    Some(Ok(Value::Access(Arc::new(access))))
}
