use simulation::*;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args[0].as_str() {
        "trace" => {
            let s: Scenario = args[1].parse().unwrap();
            let (o, lines) = trace(&s, &Real);
            for l in lines {
                println!("{l}");
            }
            println!("{:?}", o.violations);
        }
        "shrink" => {
            let s: Scenario = args[1].parse().unwrap();
            let o = shrink(&s, &Real);
            println!("{}", o.scenario);
            for l in trace(&o.scenario, &Real).1 {
                println!("{l}");
            }
        }
        _ => {
            let from: u64 = args[0].parse().unwrap();
            let n: u64 = args[1].parse().unwrap();
            let start = std::time::Instant::now();
            let s = Summary::of(from..from + n, &Real);
            println!(
                "{} runs {} steps {} faults {} failed, {:?}",
                s.runs,
                s.steps,
                s.faults,
                s.failed.len(),
                start.elapsed()
            );
            for (kind, outcomes) in s.by_kind() {
                println!("{:6} {kind}", outcomes.len());
                for o in outcomes.iter().take(3) {
                    println!("        {} {}", o.scenario, o.violations[0]);
                }
            }
        }
    }
}
