package org.apache.beam.runners.fnexecution.control;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.DelayedBundleApplication;
import org.apache.beam.model.fnexecution.v1.BeamFnApi.ProcessBundleResponse;
import org.apache.beam.runners.core.StateInternals;
import org.apache.beam.runners.core.StateInternalsFactory;
import org.apache.beam.runners.core.StateNamespace;
import org.apache.beam.runners.core.StateNamespaces;
import org.apache.beam.runners.core.StateTags;
import org.apache.beam.runners.core.TimerInternalsFactory;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.util.CoderUtils;
import org.apache.beam.sdk.values.WindowedValue;
import org.apache.beam.sdk.values.WindowedValues;
import org.joda.time.Instant;

/**
 * Weir's own, in the place of Beam's class of this name: keeps what a call of a splittable DoFn left
 * undone until it is due.
 *
 * <p>A residual waits in a cell of its element's keyed state, and a timer of the same name brings it
 * back. Flink keeps a table for every name for good, so names come from a ring. A cell belongs to
 * one element: two residuals meet in one only if elements are equal byte for byte, and one of them
 * waits while the others are called {@link #RING} times; those of one call have names of their own.
 *
 * <p>Delays and watermarks are kept to the millisecond; a watermark is never moved forward.
 */
public final class BundleCheckpointHandlers {
  /** Names in use, for each residual that equal elements leave at once. */
  static final int RING = 64;

  private BundleCheckpointHandlers() {}

  /** The handler that Flink's runner makes; it knows its timers by {@link #isSdfTimer}. */
  @SuppressWarnings({"rawtypes", "unchecked"})
  public static final class StateAndTimerBundleCheckpointHandler<T>
      implements BundleCheckpointHandler {
    public static final String SDF_PREFIX = "sdf_checkpoint";

    private final TimerInternalsFactory<T> timers;
    private final StateInternalsFactory<T> states;
    private final Coder<WindowedValue<T>> coder;
    private final Coder windowCoder;
    private final AtomicInteger calls = new AtomicInteger();

    public StateAndTimerBundleCheckpointHandler(
        TimerInternalsFactory<T> timers,
        StateInternalsFactory<T> states,
        Coder<WindowedValue<T>> coder,
        Coder windowCoder) {
      this.timers = timers;
      this.states = states;
      this.coder = coder;
      this.windowCoder = windowCoder;
    }

    public static boolean isSdfTimer(String timerId) {
      return timerId.startsWith(SDF_PREFIX);
    }

    @Override
    public void onCheckpoint(ProcessBundleResponse response) {
      String slot = SDF_PREFIX + ":" + Math.floorMod(calls.getAndIncrement(), RING) + ":";
      Map<Object, Integer> equal = new HashMap<>();
      try {
        for (DelayedBundleApplication residual : response.getResidualRootsList()) {
          if (residual.hasApplication()) {
            byte[] element = residual.getApplication().getElement().toByteArray();
            WindowedValue<T> value = CoderUtils.decodeFromByteArray(coder, element);
            StateInternals cells = states.stateInternalsForKey(value.getValue());
            keep(slot + (equal.merge(cells.getKey(), 1, Integer::sum) - 1), residual, value, cells);
          }
        }
      } catch (Exception error) {
        throw new IllegalStateException("what a splittable DoFn left undone was not kept", error);
      }
    }

    /** Stores a residual under a name, and sets the timer that brings it back. */
    private void keep(
        String name, DelayedBundleApplication residual, WindowedValue<T> value, StateInternals cells) {
      Instant due = Instant.now().plus(delay(residual));
      Instant hold = Instant.ofEpochMilli(watermark(residual));
      for (BoundedWindow window : value.getWindows()) {
        StateNamespace namespace = StateNamespaces.window(windowCoder, window);
        cells
            .state(namespace, StateTags.value(name, coder))
            .write(
                WindowedValues.of(
                    value.getValue(), value.getTimestamp(), List.of(window), value.getPaneInfo()));
        timers
            .timerInternalsForKey(value.getValue())
            .setTimer(namespace, name, "", due, hold, TimeDomain.PROCESSING_TIME);
      }
    }

    private static long delay(DelayedBundleApplication residual) {
      var asked = residual.getRequestedTimeDelay();
      return asked.getSeconds() * 1000 + asked.getNanos() / 1_000_000;
    }

    /** The earliest watermark of any output; the beginning of time where none is known. */
    private static long watermark(DelayedBundleApplication residual) {
      long last = BoundedWindow.TIMESTAMP_MAX_VALUE.getMillis();
      return residual.getApplication().getOutputWatermarksMap().values().stream()
          .mapToLong(at -> Math.min(last, at.getSeconds() * 1000 + at.getNanos() / 1_000_000))
          .min()
          .orElse(BoundedWindow.TIMESTAMP_MIN_VALUE.getMillis());
    }
  }
}
