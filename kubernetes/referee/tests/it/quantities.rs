//! Quantities against the real server's own: whatever is written, both write the same again or refuse it in the same words.

use serde_json::json;

use super::oracle::Oracle;

#[test]
fn quantities_are_written_as_the_real_server_writes_them() {
    let Some(mut oracle) = Oracle::start() else { return };
    let texts = texts();
    let theirs = oracle.ask(&json!({ "quantities": texts }));
    let mut differences = Vec::new();
    for (text, theirs) in texts.iter().zip(theirs) {
        let theirs = match theirs["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(theirs["text"].as_str().unwrap_or_default().to_owned()),
        };
        let ours = schema::quantity(text);
        if ours != theirs {
            differences.push(format!("{text:?}: real {theirs:?}, ours {ours:?}"));
        }
    }
    assert!(texts.len() > 5000, "only {} quantities were compared", texts.len());
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} quantities are written differently:\n{shown}", differences.len());
}

/// Every number with every suffix.
fn texts() -> Vec<String> {
    let numbers = [
        "0",
        "00",
        "1",
        "2",
        "3",
        "7",
        "8",
        "10",
        "100",
        "500",
        "512",
        "1000",
        "1023",
        "1024",
        "1025",
        "1048576",
        "1000000",
        "999999999999999999",
        "9223372036854775807",
        "123456789012345678901",
        "0.1",
        "0.5",
        "0.25",
        "1.5",
        "1.50",
        "1.500",
        "1.000",
        "12.345",
        "0.0001",
        "0.0000000001",
        "0.1234567891",
        "1.0000000001",
        ".5",
        "5.",
        "",
        ".",
        "1.2.3",
        "x",
        "007",
        "1_0",
        "0.9999999999",
        "1536",
        "3.75",
        "100.001",
        "2048.5",
    ];
    let suffixes = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0", "e1", "e2", "e3",
        "E3", "e-3", "e+6", "e-1", "e9", "e18", "e-9", "e-10", "K", "Kii", "mi", "e", "ee3", "1", "i", " ",
    ];
    let mut texts = Vec::new();
    for sign in ["", "-", "+", "--"] {
        for number in numbers {
            texts.extend(suffixes.iter().map(|suffix| format!("{sign}{number}{suffix}")));
        }
    }
    texts
}
