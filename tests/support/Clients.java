import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Writes as Java programs do: the client's defaults, which offer HTTP/2 with the first requests to a host. */
public class Clients {
  /** PREFIX UPDATES PUTS EXPECT MASTER…: prints one line a request, its status. */
  public static void main(String[] args) throws Exception {
    String prefix = args[0];
    int updates = Integer.parseInt(args[1]);
    int puts = Integer.parseInt(args[2]);
    boolean expects = Boolean.parseBoolean(args[3]);
    for (int n = 0; n < updates; n++) {
      String update = "INSERT DATA { <" + prefix + "> <urn:update> " + n + " }";
      HttpRequest.BodyPublisher text = HttpRequest.BodyPublishers.ofString(update);
      // Of unknown length: in chunks.
      HttpRequest.BodyPublisher chunks = HttpRequest.BodyPublishers.fromPublisher(text);
      send(args[4 + n % (args.length - 4)] + "/update", "POST", "application/sparql-update", expects,
          n % 2 == 0 ? text : chunks);
    }
    for (int n = 0; n < puts; n++) {
      String context = "?context=%3C" + prefix + ":" + n + "%3E";
      send(args[4 + n % (args.length - 4)] + "/repositories/main/statements" + context, "PUT", "text/turtle", expects,
          HttpRequest.BodyPublishers.ofString("<" + prefix + "> <urn:put> " + n + " ."));
    }
  }

  private static void send(String url, String method, String mediaType, boolean expects,
      HttpRequest.BodyPublisher body) throws Exception {
    // A client of its own: the offer comes with the first request of a connection.
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(60))
        .header("Content-Type", mediaType).expectContinue(expects).method(method, body).build();
    System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
  }
}
