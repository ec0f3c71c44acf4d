fn main() {
    #[durable::workflow]
    async fn inner(number: u32) -> u32 {
        number
    }

    let _start = inner::start(3);
    let _call = || inner(3);
}
