import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Optional;
import org.eclipse.rdf4j.model.impl.SimpleValueFactory;
import org.eclipse.rdf4j.query.resultio.QueryResultFormat;
import org.eclipse.rdf4j.query.resultio.TupleQueryResultFormat;
import org.eclipse.rdf4j.query.resultio.QueryResultIO;
import org.eclipse.rdf4j.query.resultio.helpers.QueryResultCollector;
import org.eclipse.rdf4j.rio.RDFFormat;
import org.eclipse.rdf4j.rio.RDFParser;
import org.eclipse.rdf4j.rio.Rio;
import org.eclipse.rdf4j.rio.helpers.StatementCollector;

/** Reads answers with RDF4J's parsers: of each line, a media type, a tab and a URL; says "whole", or why it is not. */
public class ReadAnswers {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] parts = line.split("\t");
            System.out.println(read(client, parts[0], parts[1]));
        }
    }

    private static String read(HttpClient client, String mediaType, String url) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url)).header("Accept", mediaType).build();
            HttpResponse<InputStream> answer = client.send(request, HttpResponse.BodyHandlers.ofInputStream());
            if (answer.statusCode() != 200) {
                return "status " + answer.statusCode();
            }
            try (InputStream body = answer.body()) {
                Optional<QueryResultFormat> table = QueryResultIO.getParserFormatForMIMEType(mediaType);
                if (table.isPresent()) {
                    QueryResultIO.parseTuple(body, (TupleQueryResultFormat) table.get(), new QueryResultCollector(),
                        SimpleValueFactory.getInstance());
                } else {
                    RDFFormat format = Rio.getParserFormatForMIMEType(mediaType).orElseThrow();
                    RDFParser parser = Rio.createParser(format);
                    parser.setRDFHandler(new StatementCollector());
                    parser.parse(body, "urn:base");
                }
            }
            return "whole";
        } catch (Exception error) {
            return "error " + error.toString().replaceAll("\\s+", " ");
        }
    }
}
