//! Serves the embedded API from a folder until it is killed: `cargo run -p apiserver --example serve -- FOLDER PORT`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the first argument is a folder")?;
    let port = arguments.next().unwrap_or_default().parse().unwrap_or(0);
    let server = apiserver::Server::builder().data(folder).port(port).start().await?;
    println!("{}", server.server());
    std::future::pending::<()>().await;
    Ok(())
}
