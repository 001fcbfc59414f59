//! Draws the fleet as aligned tables: pools, nodes, and machines where there are any.

use explain::fleet::is_running;
use explain::{Explanation, Fleet, Member, Snapshot, State, ago};
use owo_colors::OwoColorize as _;

/// Sentences longer than this are cut in a table; `why` has all of it.
const LONGEST: usize = 90;

pub(super) fn draw(fleet: &Fleet, snapshot: &Snapshot, all: bool) -> String {
    let mut rows =
        vec![header(&["POOL", "STATE", "UPDATED", "UNAVAILABLE", "PROGRESS", "SINCE", "CONFIG", "WAITS FOR"])];
    for pool in &fleet.pools {
        let facts = &snapshot.pools[&pool.name];
        let nodes = snapshot.nodes_of(&pool.name);
        let (count, updated) = nodes.fold((0, 0), |(count, updated), node| {
            let reached = node.done && node.current.as_deref() == Some(&facts.target);
            (count + 1, updated + usize::from(reached))
        });
        rows.push(Row(vec![
            Cell::plain(&pool.name),
            state(pool.state),
            Cell::plain(&format!("{updated}/{count}")),
            Cell::plain(&facts.status.unavailable_machine_count.unwrap_or(0).to_string()),
            Cell::plain(&bar(updated, count)),
            since(pool, snapshot),
            Cell::plain(&short(&facts.target)),
            match (&facts.pause, pool.waiting_for.is_empty()) {
                (Some(pause), true) => Cell::plain(&cut(&format!("nothing; it is paused{pause}"))),
                (Some(_) | None, _) => waits(pool),
            },
        ]));
    }
    let mut text = lines(&rows);
    let shown = fleet.shown(all);
    if !shown.is_empty() {
        let mut rows = vec![header(&["NODE", "POOL", "STATE", "SINCE", "CONFIG", "TARGET", "WAITS FOR"])];
        for node in &shown {
            let facts = &snapshot.nodes[&node.name];
            let pool = match &facts.member {
                Member::Pool(pool) => pool.clone(),
                Member::Contested(pools) => pools.join("+"),
                Member::Born(_) | Member::Unmanaged => "-".to_owned(),
            };
            let target = facts.desired.as_ref().filter(|_| facts.desired != facts.current);
            rows.push(Row(vec![
                Cell::plain(&node.name),
                Cell::plain(&pool),
                state(node.state),
                since(node, snapshot),
                Cell::plain(&facts.current.as_deref().map_or("-".to_owned(), short)),
                Cell::plain(&target.map_or(String::new(), |target| short(target))),
                waits(node),
            ]));
        }
        text.push('\n');
        text.push_str(&lines(&rows));
    }
    let hidden = fleet.nodes.len() - shown.len();
    if hidden > 0 {
        let done = fleet.nodes.iter().filter(|node| node.state == State::Updated).count();
        text.push_str(&format!(
            "\n{hidden} more nodes, {done} of {} updated; --all shows every one\n",
            fleet.nodes.len()
        ));
    }
    text.push_str(&draw_machines(fleet, snapshot, all));
    text
}

/// How many machines run, and those that do not with what they wait for.
fn draw_machines(fleet: &Fleet, snapshot: &Snapshot, all: bool) -> String {
    if fleet.machines.is_empty() && fleet.machine_sets.is_empty() {
        return String::new();
    }
    let running = fleet.machines.iter().filter(|machine| is_running(machine)).count();
    let (machines, sets) = (fleet.machines.len(), fleet.machine_sets.len());
    let mut text = format!("\n{running} of {machines} machines run; {sets} MachineSets\n");
    let shown = fleet.shown_sets(all);
    if !shown.is_empty() {
        let mut rows = vec![header(&["MACHINESET", "STATE", "DESIRED", "READY", "AVAILABLE", "WAITS FOR"])];
        for set in shown {
            let facts = &snapshot.machine_sets[&set.name];
            rows.push(Row(vec![
                Cell::plain(&set.name),
                state(set.state),
                Cell::plain(&facts.desired.to_string()),
                Cell::plain(&facts.ready.to_string()),
                Cell::plain(&facts.available.to_string()),
                waits(set),
            ]));
        }
        text.push('\n');
        text.push_str(&lines(&rows));
    }
    let shown = fleet.shown_machines(all);
    if !shown.is_empty() {
        let mut rows = vec![header(&["MACHINE", "STATE", "SINCE", "NODE", "WAITS FOR"])];
        for machine in shown {
            let node = snapshot.machines[&machine.name].node.as_deref();
            rows.push(Row(vec![
                Cell::plain(&machine.name),
                state(machine.state),
                since(machine, snapshot),
                Cell::plain(node.unwrap_or("-")),
                waits(machine),
            ]));
        }
        text.push('\n');
        text.push_str(&lines(&rows));
    }
    text
}

/// A cell: its text, and how it looks.
struct Cell {
    text: String,
    painted: String,
}

struct Row(Vec<Cell>);

impl Cell {
    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), painted: text.to_owned() }
    }
}

fn header(names: &[&str]) -> Row {
    Row(names.iter().map(|name| Cell { text: (*name).to_owned(), painted: name.bold().to_string() }).collect())
}

fn state(state: State) -> Cell {
    let text = state.to_string();
    let painted = match state {
        State::Updated | State::Running => text.green().to_string(),
        State::Updating | State::Provisioning | State::Deleting => text.cyan().to_string(),
        State::Waiting | State::Unmanaged | State::Unknown => text.clone(),
        State::Paused => text.yellow().to_string(),
        State::Blocked | State::Degraded | State::Failed => text.red().to_string(),
    };
    Cell { text, painted }
}

fn since(it: &Explanation, snapshot: &Snapshot) -> Cell {
    Cell::plain(&it.since.map_or("-".to_owned(), |since| ago(since, snapshot.now)))
}

fn waits(it: &Explanation) -> Cell {
    let text = match it.waiting_for.first() {
        Some(first) if it.waiting_for.len() > 1 => format!("{} (+{} more)", cut(first), it.waiting_for.len() - 1),
        Some(first) => cut(first),
        None => String::new(),
    };
    Cell::plain(&text)
}

fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    format!("{}…", line.chars().take(LONGEST).collect::<String>())
}

/// `rendered-worker-0a1b2c3d…` cut to what people compare.
pub(crate) fn short(config: &str) -> String {
    let config = config.strip_prefix(api::names::RENDERED_PREFIX).unwrap_or(config);
    match config.rsplit_once('-') {
        Some((head, hash)) if hash.len() > 8 && hash.is_ascii() => format!("{head}-{}", &hash[..8]),
        _ => config.to_owned(),
    }
}

fn bar(done: usize, all: usize) -> String {
    const WIDTH: usize = 10;
    let filled = (done * WIDTH).checked_div(all).unwrap_or(0);
    format!("[{}{}]", "#".repeat(filled), ".".repeat(WIDTH - filled))
}

fn lines(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, |row| row.0.len());
    let width = |column: usize| rows.iter().map(|row| row.0[column].text.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.0.iter().zip(&widths) {
            line.push_str(&cell.painted);
            line.push_str(&" ".repeat(width - cell.text.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
