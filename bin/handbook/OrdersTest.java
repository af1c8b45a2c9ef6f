import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import java.net.http.*;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.junit.jupiter.*;

@Testcontainers
class OrdersTest {
  @Container
  static final GenericContainer<?> assetlog = new GenericContainer<>("ghcr.io/example/assetlog-test:0.4.0")
      .withExposedPorts(3000).waitingFor(Wait.forHttp("/readyz"));

  String url() { return "http://" + assetlog.getHost() + ":" + assetlog.getMappedPort(3000); }

  String ask(String method, String path, String body) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(url() + path)).header("Content-Type", "application/json")
        .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
  }

  @Test
  void theLoadTriesAgain() throws Exception {
    ask("POST", "/test/reset", "");
    ask("PUT", "/test/faults", "{\"faults\": [{\"times\": 2, \"then\": {\"status\": 503, \"retry_after\": 0}}]}");
    Orders.load(url()); // the code under test
    assertEquals(1, ask("GET", "/events?key=warehouse/orders", "").lines().count());
  }
}
