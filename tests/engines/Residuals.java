import java.util.HashMap;
import java.util.Map;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.BundleApplication;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.DelayedBundleApplication;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.ProcessBundleResponse;
import org.apache.beam.runners.core.InMemoryStateInternals;
import org.apache.beam.runners.core.InMemoryTimerInternals;
import org.apache.beam.runners.core.StateInternals;
import org.apache.beam.runners.core.StateNamespace;
import org.apache.beam.runners.core.StateNamespaces;
import org.apache.beam.runners.core.StateTags;
import org.apache.beam.runners.fnexecution.control.BundleCheckpointHandlers.StateAndTimerBundleCheckpointHandler;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.apache.beam.sdk.util.CoderUtils;
import org.apache.beam.sdk.values.WindowedValue;
import org.apache.beam.sdk.values.WindowedValues;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.ByteString;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.Duration;
import org.apache.beam.vendor.grpc.v1p69p0.com.google.protobuf.Timestamp;
import org.joda.time.Instant;

/**
 * Gives residuals to the handler of a job server as Flink's runner does. Arguments: calls, elements.
 * Prints a line a timer: name, element, what its cell holds, milliseconds until it is due, hold.
 */
public class Residuals {
  public static void main(String[] arguments) throws Exception {
    Coder<WindowedValue<String>> coder =
        WindowedValues.getFullCoder(StringUtf8Coder.of(), GlobalWindow.Coder.INSTANCE);
    Map<String, StateInternals> states = new HashMap<>();
    StringBuilder told = new StringBuilder();
    ProcessBundleResponse.Builder response = ProcessBundleResponse.newBuilder();
    for (String element : arguments[1].split(",")) {
      response.addResidualRoots(residual(coder, element));
    }
    Map<String, String> names = new HashMap<>();
    var handler =
        new StateAndTimerBundleCheckpointHandler<String>(
            key ->
                new InMemoryTimerInternals() {
                  @Override
                  public void setTimer(
                      StateNamespace space, String id, String family, Instant at, Instant hold, TimeDomain domain) {
                    long wait = at.getMillis() - System.currentTimeMillis();
                    names.put(id + " " + key, wait + " " + hold.getMillis());
                  }
                },
            key -> states.computeIfAbsent(key, InMemoryStateInternals::forKey),
            coder,
            GlobalWindow.Coder.INSTANCE);
    for (int call = 0; call < Integer.parseInt(arguments[0]); call++) {
      names.clear();
      handler.onCheckpoint(response.build());
      names.forEach(
          (name, times) -> {
            String[] parts = name.split(" ");
            var cell =
                states
                    .get(parts[1])
                    .state(
                        StateNamespaces.window(GlobalWindow.Coder.INSTANCE, GlobalWindow.INSTANCE),
                        StateTags.value(parts[0], coder));
            told.append(name + " " + cell.read().getValue() + " " + times + "\n");
          });
    }
    System.out.print(told);
  }

  private static DelayedBundleApplication residual(
      Coder<WindowedValue<String>> coder, String element) throws Exception {
    byte[] bytes =
        CoderUtils.encodeToByteArray(coder, WindowedValues.valueInGlobalWindow(element));
    return DelayedBundleApplication.newBuilder()
        .setRequestedTimeDelay(Duration.newBuilder().setSeconds(50).setNanos(900_000_000))
        .setApplication(
            BundleApplication.newBuilder()
                .setElement(ByteString.copyFrom(bytes))
                .putOutputWatermarks(
                    "main", Timestamp.newBuilder().setSeconds(7).setNanos(123_999_999).build())
                .putOutputWatermarks("dead", Timestamp.newBuilder().setSeconds(9).build()))
        .build();
  }
}
