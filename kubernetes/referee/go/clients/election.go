package main

import (
	"context"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election has two candidates for one lease: one leads and steps down, the other follows.
func election(ctx context.Context, config *rest.Config, namespace string) {
	client, err := kubernetes.NewForConfig(config)
	must(err)
	candidate := func(ctx context.Context, name string) (leads, stopped chan struct{}) {
		leads, stopped = make(chan struct{}), make(chan struct{})
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  meta.ObjectMeta{Name: "lead", Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, Name: "lead",
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { close(leads) },
				OnStoppedLeading: func() { close(stopped) },
			},
		})
		return leads, stopped
	}
	holder := func() string {
		lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "lead", meta.GetOptions{})
		must(err)
		if lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	first, resign := context.WithCancel(ctx)
	leads, stopped := candidate(first, "first")
	<-leads
	say("%s leads", holder())
	second, end := context.WithCancel(ctx)
	leads, _ = candidate(second, "second")
	select {
	case <-leads:
		say("two lead")
	case <-time.After(time.Second):
		say("%s still leads", holder())
	}
	resign()
	<-stopped
	<-leads
	say("%s leads", holder())
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "lead", meta.GetOptions{})
	must(err)
	say("transitions %d", *lease.Spec.LeaseTransitions)
	end()
}
