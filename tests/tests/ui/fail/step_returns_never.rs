use durable::step;

#[step]
async fn serve() -> ! {
    loop {}
}

fn main() {}
