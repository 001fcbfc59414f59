//! Draws a session at a terminal as an SVG that plays by itself, with CSS only.
//!
//! Every line has its place on one long sheet, appears at its time, and the sheet moves up behind the window. It loops.

use std::fmt::Write as _;
use std::time::Duration;

/// A command and what it printed, with SGR escapes for bold and colours.
pub(super) struct Scene {
    pub(super) command: String,
    pub(super) output: Vec<String>,
    /// How long the answer is waited for.
    pub(super) took: Duration,
}

const COLUMNS: usize = 124;
const ROWS: usize = 30;
/// Width and height of a character's cell, in pixels.
const CELL: (f32, f32) = (7.2, 17.0);
const MARGIN: f32 = 14.0;
const BAR: f32 = 26.0;

const PROMPT: &str = "$ ";
/// Seconds for each typed character, before the first, for reading one printed line, and at the end.
const TYPING: f32 = 0.045;
const PAUSE: f32 = 0.6;
const READING: f32 = 0.28;
const END: f32 = 4.0;

const STYLE: &str = "text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d0d7de;white-space:pre}\
.b{font-weight:bold}.d{fill:#8b949e}.c31{fill:#ff7b72}.c32{fill:#7ee787}.c33{fill:#e3b341}.c34{fill:#79c0ff}.c35{fill:#d2a8ff}\
.c36{fill:#76e3ea}.p{fill:#7ee787;font-weight:bold}";

/// One line of the sheet.
struct Line {
    text: String,
    is_command: bool,
    /// When it appears, and until when it is typed.
    at: f32,
    typed: f32,
}

pub(super) fn draw(title: &str, scenes: &[Scene]) -> String {
    let (lines, total) = lay_out(scenes);
    let (width, height) = (COLUMNS as f32 * CELL.0 + 2.0 * MARGIN, ROWS as f32 * CELL.1 + 2.0 * MARGIN + BAR);
    let mut style = STYLE.to_owned();
    let mut sheet = String::new();
    for (row, line) in lines.iter().enumerate() {
        let y = (row as f32 + 0.75) * CELL.1;
        let _ = write!(style, "@keyframes l{row}{{0%{{opacity:0}}{:.2}%{{opacity:1}}}}", 100.0 * line.at / total);
        let _ = write!(style, "#l{row}{{animation:l{row} {total:.1}s step-end infinite}}");
        let _ = write!(sheet, "<g id=\"l{row}\">");
        if line.is_command {
            let _ = write!(sheet, "{}{}", cells(0, y, "p", PROMPT), cells(2, y, "b", &line.text));
            let _ = write!(sheet, "{}", cover(row, line, total, &mut style));
        } else {
            sheet.push_str(&printed(&line.text, y));
        }
        sheet.push_str("</g>");
    }
    let _ = write!(style, "{}#sheet{{animation:sheet {total:.1}s step-end infinite}}", scroll(&lines, total));
    let bar = [("#ff5f57", 18), ("#febc2e", 36), ("#28c840", 54)]
        .map(|(colour, x)| format!("<circle cx=\"{x}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/>", BAR / 2.0 + 2.0));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>{style}</style>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\" fill=\"#0d1117\"/>{}\n\
         <svg x=\"{MARGIN}\" y=\"{}\" width=\"{:.0}\" height=\"{:.0}\"><g id=\"sheet\">{sheet}</g></svg>\n</svg>\n",
        bar.concat(),
        BAR + MARGIN,
        width - MARGIN,
        ROWS as f32 * CELL.1,
    )
}

/// The lines of all scenes with their times, and how long the whole takes.
fn lay_out(scenes: &[Scene]) -> (Vec<Line>, f32) {
    let (mut lines, mut now) = (Vec::new(), 0.0);
    for scene in scenes {
        now += PAUSE;
        let typed = now + scene.command.chars().count() as f32 * TYPING;
        lines.push(Line { text: scene.command.clone(), is_command: true, at: now, typed });
        now = typed + scene.took.as_secs_f32().max(0.2);
        for text in scene.output.iter().flat_map(|line| wrapped(line)) {
            lines.push(Line { text, is_command: false, at: now, typed: now });
        }
        now += (scene.output.len() as f32 * READING).clamp(0.3, 6.0);
    }
    (lines, now + END)
}

/// A line that is longer than the window goes on in the next.
fn wrapped(line: &str) -> Vec<String> {
    if plain(line).chars().count() <= COLUMNS {
        return vec![line.to_owned()];
    }
    let text: Vec<char> = plain(line).chars().collect();
    text.chunks(COLUMNS).map(|chunk| chunk.iter().collect()).collect()
}

/// The command appears letter by letter: what hides it moves to the right.
fn cover(row: usize, line: &Line, total: f32, style: &mut String) -> String {
    let letters = line.text.chars().count().max(1);
    let (from, to) = (100.0 * line.at / total, 100.0 * line.typed / total);
    let _ = write!(
        style,
        "@keyframes c{row}{{0%{{transform:none}}{from:.2}%{{transform:none;animation-timing-function:steps({letters})}}\
         {to:.2}%,100%{{transform:translateX({:.1}px)}}}}#c{row}{{animation:c{row} {total:.1}s step-end infinite}}",
        letters as f32 * CELL.0
    );
    let (x, y) = (2.0 * CELL.0, row as f32 * CELL.1);
    let width = (letters + 1) as f32 * CELL.0;
    format!(
        "<g id=\"c{row}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"#0d1117\"/></g>",
        CELL.1
    )
}

/// The sheet moves up as soon as a line would be below the window.
fn scroll(lines: &[Line], total: f32) -> String {
    let mut steps = String::from("@keyframes sheet{0%{transform:none}");
    let mut last: Option<f32> = None;
    for (row, line) in lines.iter().enumerate().skip(ROWS) {
        // Of lines that appear together only the last one counts.
        if lines.get(row + 1).is_some_and(|next| next.at <= line.at) {
            continue;
        }
        let up = (row + 1 - ROWS) as f32 * CELL.1;
        if last != Some(up) {
            let _ = write!(steps, "{:.2}%{{transform:translateY(-{up:.0}px)}}", 100.0 * line.at / total);
            last = Some(up);
        }
    }
    steps.push('}');
    steps
}

/// A printed line, piece by piece of one look.
fn printed(line: &str, y: f32) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for (class, piece) in pieces(line) {
        if !piece.trim().is_empty() {
            text.push_str(&cells(column, y, &class, &piece));
        }
        column += piece.chars().count();
    }
    text
}

/// Characters in their cells, whatever the width of the reader's font.
fn cells(column: usize, y: f32, class: &str, text: &str) -> String {
    let text = text.trim_end();
    let (x, width) = (column as f32 * CELL.0, text.chars().count() as f32 * CELL.0);
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"{class} xml:space=\"preserve\">{text}</text>"
    )
}

/// A line without its escapes.
pub(super) fn plain(text: &str) -> String {
    text.split_inclusive('\n').flat_map(pieces).map(|(_, piece)| piece).collect()
}

/// Pieces of a line and the classes they are drawn with, by SGR escapes.
fn pieces(line: &str) -> Vec<(String, String)> {
    let (mut pieces, mut class) = (Vec::new(), String::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        pieces.push((class.clone(), before.to_owned()));
        let end = after.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(after.len());
        if after[end..].starts_with('m') {
            after[..end].split(';').for_each(|code| turn(&mut class, code));
        }
        rest = after.get(end + 1..).unwrap_or_default();
    }
    pieces.push((class, rest.to_owned()));
    pieces.retain(|(_, piece)| !piece.is_empty());
    pieces
}

fn turn(class: &mut String, code: &str) {
    let is_colour = |name: &&str| name.starts_with('c');
    let kept: Vec<&str> = match code {
        "39" => class.split(' ').filter(|name| !is_colour(name)).collect(),
        "22" => class.split(' ').filter(|name| is_colour(name)).collect(),
        "1" => class.split(' ').chain(["b"]).collect(),
        "2" => class.split(' ').chain(["d"]).collect(),
        "31" | "32" | "33" | "34" | "35" | "36" => {
            let colour = format!("c{code}");
            let rest: Vec<&str> = class.split(' ').filter(|name| !is_colour(name)).collect();
            *class = [rest.join(" "), colour].join(" ").trim().to_owned();
            return;
        }
        _ => Vec::new(),
    };
    *class = kept.join(" ").trim().to_owned();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(command: &str, output: &[&str]) -> Scene {
        let output = output.iter().map(|line| (*line).to_owned()).collect();
        Scene { command: command.to_owned(), output, took: Duration::ZERO }
    }

    #[test]
    fn escapes_become_classes_and_leave_no_trace() {
        let line = "a \u{1b}[1mbold\u{1b}[0m \u{1b}[31mred\u{1b}[39m end";
        let pieces: Vec<String> = pieces(line).iter().map(|(class, text)| format!("{class}:{text}")).collect();
        assert_eq!(pieces, [":a ", "b:bold", ": ", "c31:red", ": end"]);
        assert_eq!(plain(line), "a bold red end");
    }

    #[test]
    fn a_drawing_is_alone_in_the_world_and_holds_every_line() {
        let many: Vec<String> = (0..80).map(|number| format!("line {number} <&>")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let drawing = draw("a title", &[scene("first", &["one"]), scene("second", &many)]);
        assert!(drawing.contains("line 79 &lt;&amp;&gt;") && drawing.contains(">first<"), "{drawing}");
        assert!(!drawing.contains("href") && !drawing.contains("url(") && !drawing.contains("<script"), "{drawing}");
        let moved = format!("translateY(-{:.0}px)", (83 - ROWS) as f32 * CELL.1);
        assert!(drawing.contains(&moved), "the last line is in the window: {moved}");
        assert!(drawing.len() < 200 * 1024);
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_in_the_next() {
        assert_eq!(wrapped(&"x".repeat(COLUMNS + 3)).iter().map(String::len).collect::<Vec<_>>(), [COLUMNS, 3]);
    }
}
