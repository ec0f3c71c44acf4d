use durable::step;

trait Store: Sync {
    fn prefix(&self) -> &str;

    #[step]
    async fn read(&self, key: &str) -> String;

    #[step]
    async fn read_twice(&self, key: &str) -> String {
        let first = self.read(key).await;
        format!("{first}{}", self.prefix())
    }
}

struct Memory(String);

impl Store for Memory {
    fn prefix(&self) -> &str {
        &self.0
    }

    #[step(retry)]
    async fn read(&self, key: &str) -> String {
        format!("{}{key}", self.0)
    }
}

trait Plain {
    fn ask(&self, key: &str) -> impl Future<Output = u32> + Send;
    async fn tell(&self) -> u32;
}

impl Plain for Memory {
    #[step]
    async fn ask(&self, key: &str) -> u32 {
        std::future::ready(()).await;
        u32::from(key.is_empty() && self.0.is_empty())
    }

    #[step]
    async fn tell(&self) -> u32 {
        3
    }
}

async fn caller(memory: Memory) {
    memory.read_twice("key").await;
    memory.ask("key").await;
    memory.tell().await;
}

fn main() {
    let _future = caller(Memory(String::new()));
}
