//! What calls of single functions cost, where that depends on the sizes of their arguments.

use kube_cel::cel::common::ast::{Expr, LiteralValue};

use super::{
    cost::{Estimate, Part, Size, by_factor},
    types::Type,
};

/// Going through a text costs a tenth of an operation a character, a regular expression a quarter.
const TEXT: f64 = 0.1;
const PATTERN: f64 = 0.25;
/// No name format is longer than this as a regular expression.
const NAME_FORMAT: f64 = 128.0;
const LIST: u64 = 10;

type Estimated = Option<(u64, Option<Size>)>;

/// The cost without that of the arguments, and the size of the result; none where a call simply counts one.
pub(super) fn of_call(
    estimate: &Estimate<'_>,
    function: &str,
    overload: &str,
    target: Option<&Part<'_>>,
    args: &[Part<'_>],
) -> Estimated {
    lists(overload, target, args)
        .or_else(|| kubernetes(estimate, function, overload, target, args))
        .or_else(|| standard(overload, target, args))
}

fn lists(overload: &str, target: Option<&Part<'_>>, args: &[Part<'_>]) -> Estimated {
    let made = |factor: f64, size: Size| Some((size.traversed(factor).saturating_add(1 + LIST), Some(size)));
    let square = |size: Size| size.times(size);
    match (overload, target, args) {
        ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", None, [one, two]) => {
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            Some((one.size().times(two.size()).traversed(factor).saturating_add(1), None))
        }
        ("list_slice", Some(list), [start, end]) => {
            let (start, end) = (count(start).unwrap_or(0), count(end).unwrap_or(list.size().max));
            made(1.0, Size::of(end.wrapping_sub(start)))
        }
        ("list_flatten", Some(list), _) => made(1.0, list.size()),
        ("list_flatten_int", Some(list), [depth]) => made(count(depth).unwrap_or(u64::MAX) as f64, list.size()),
        ("lists_range", None, [length]) => made(1.0, Size::of(count(length).unwrap_or(u64::MAX))),
        ("list_reverse", Some(list), _) => made(1.0, list.size()),
        ("list_distinct", Some(list), _) => made(2.0, square(list.size())),
        ("list_string_sort" | "list_bytes_sort", Some(list), _) => made(2.0 + TEXT, square(list.size())),
        (sort, Some(list), _) if sort.starts_with("list_") && sort.ends_with("_sort") => made(2.0, square(list.size())),
        ("list_string_sortByAssociatedKeys" | "list_bytes_sortByAssociatedKeys", Some(_), [keys]) => {
            made(2.0 + TEXT, square(keys.size()))
        }
        (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => made(2.0, square(keys.size())),
        _ => None,
    }
}

/// A count that stands in the expression; one below nothing is none.
fn count(part: &Part<'_>) -> Option<u64> {
    match &part.expression.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
        _ => None,
    }
}

fn number(part: &Part<'_>) -> Option<u64> {
    match &part.expression.expr {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).ok(),
        _ => None,
    }
}

fn kubernetes(
    estimate: &Estimate<'_>,
    function: &str,
    overload: &str,
    target: Option<&Part<'_>>,
    args: &[Part<'_>],
) -> Estimated {
    let element = |list: &Part<'_>| -> Option<(Type, Size)> {
        let Type::List(inner) = list.own else { return None };
        let mut path = list.path.clone();
        if path.is_empty() {
            return Some((inner.as_ref().clone(), Size::UNKNOWN));
        }
        path.push("@items".to_owned());
        Some((inner.as_ref().clone(), estimate.size_at(&path).unwrap_or(Size::UNKNOWN)))
    };
    match (function, target, args) {
        ("check", ..) => Some((350_000, None)),
        (
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery",
            ..,
        ) => Some((1, None)),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => match element(target) {
            Some((own, size)) => {
                let each = match own {
                    Type::Text | Type::Bytes => size.traversed(TEXT).saturating_add(1),
                    _ => 1,
                };
                Some((target.size().max.saturating_mul(each), None))
            }
            None => Some((target.size().traversed(TEXT), None)),
        },
        ("url", _, [text]) => Some((text.size().traversed(TEXT), Some(text.size()))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            Some((text.size().traversed(TEXT), Some(text.size())))
        }
        ("replace", Some(text), [from, to, ..]) => {
            Some((text.size().traversed(2.0 * TEXT), Some(replaced(text.size(), from.size(), to.size()))))
        }
        ("split", Some(text), _) => {
            let most = args.get(1).and_then(number).unwrap_or(text.size().max);
            Some((text.size().traversed(2.0 * TEXT), Some(Size { min: 0, max: most })))
        }
        ("join", Some(list), _) => {
            let mut size = element(list).map_or(Size::of(0), |(_, element)| list.size().times(element));
            if let Some(separator) = args.first() {
                let between = Size { min: list.size().min.saturating_sub(1), max: list.size().max.saturating_sub(1) };
                size = size.plus(separator.size().times(between));
            }
            Some((size.traversed(TEXT), Some(size)))
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let cost = text.size().plus(Size::of(1)).traversed(TEXT).saturating_mul(pattern.size().traversed(PATTERN));
            Some((cost, Some(Size { min: 0, max: text.size().max })))
        }
        ("ip", ..) if overload == "cidr_ip" => Some((1, None)),
        ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
            Some((text.size().traversed(TEXT), None))
        }
        ("ip.isCanonical", _, [text]) => Some((text.size().traversed(2.0 * TEXT), None)),
        ("containsIP" | "containsCIDR", _, [other]) => {
            // Addresses have four or sixteen bytes, and both are gone through.
            let mut cost = by_factor(32, TEXT);
            if function == "containsCIDR" {
                cost += by_factor(16, TEXT) + 1;
            }
            if overload.ends_with("_string") {
                cost = cost.saturating_add(other.size().traversed(TEXT));
            }
            Some((cost, None))
        }
        ("validate", _, [text]) => Some((by_factor(text.size().traversed(TEXT), NAME_FORMAT * PATTERN), None)),
        ("_==_", _, [one, two]) if one.own == two.own => match one.own {
            Type::Opaque(name, _) if name == "net.IP" || name == "net.CIDR" => Some((1, None)),
            Type::Struct(name) => match name.as_str() {
                "kubernetes.Quantity" | "kubernetes.Semver" => Some((1, None)),
                "kubernetes.NamedFormat" => Some((by_factor(64, TEXT), None)),
                "kubernetes.URL" => Some((two.size.unwrap_or(Size::of(1)).traversed(TEXT), None)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The size of a text in which one part is replaced with another as often as it occurs.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (mut count, mut kept) = (Size::of(0), Size::of(0));
    if from.min == 0 {
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = text.max.div_ceil(from.min);
    }
    if from.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = text.min.div_ceil(from.max);
    }
    count.times(to).plus(kept)
}

fn standard(overload: &str, target: Option<&Part<'_>>, args: &[Part<'_>]) -> Estimated {
    match (overload, target, args) {
        ("string_format", Some(text), _) => Some((text.size().traversed(TEXT), None)),
        ("string_to_bytes", _, [text]) => {
            let size = text.size();
            Some((size.traversed(TEXT), Some(Size { min: size.min, max: size.max.wrapping_mul(4) })))
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = bytes.size();
            Some((size.traversed(TEXT), Some(Size { min: size.min / 4, max: size.max })))
        }
        ("strings_quote", _, [text]) => {
            let size = text.size();
            let quoted = Size { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
            Some((size.traversed(TEXT), Some(quoted)))
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => Some((part.size().traversed(TEXT), None)),
        ("in_list", _, [_, list]) => Some((list.size().max, None)),
        ("matches_string", Some(text), [pattern]) => {
            let cost = text.size().plus(Size::of(1)).traversed(TEXT).saturating_mul(pattern.size().traversed(PATTERN));
            Some((cost, None))
        }
        ("contains_string", Some(text), [part]) => {
            Some((text.size().traversed(TEXT).saturating_mul(part.size().traversed(TEXT)), None))
        }
        (
            "equals"
            | "not_equals"
            | "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes",
            _,
            [one, two],
        ) => Some((by_factor(one.size().max.min(two.size().max), TEXT), None)),
        _ => None,
    }
}
