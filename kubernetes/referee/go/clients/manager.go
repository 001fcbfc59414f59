package main

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "clients.example.com/tidy"

// copier keeps a Secret for every ConfigMap that asks for one, and tidies up through a finalizer.
type copier struct {
	client client.Client
	notes  *notes
}

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &core.ConfigMap{}
	if err := c.client.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["copied"] != "yes" {
		return ctrl.Result{}, nil
	}
	copied := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	if !source.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(c.client.Delete(ctx, copied)); err != nil {
			return ctrl.Result{}, err
		}
		before := source.DeepCopy()
		if !controllerutil.RemoveFinalizer(source, finalizer) {
			return ctrl.Result{}, nil
		}
		// The cache may still show what is gone already.
		if err := c.client.Patch(ctx, source, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		c.notes.add("tidied " + source.Name)
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(source, finalizer) {
		return ctrl.Result{}, c.client.Update(ctx, source)
	}
	done, err := controllerutil.CreateOrUpdate(ctx, c.client, copied, func() error {
		copied.Data = map[string][]byte{"k": []byte(source.Data["k"])}
		return controllerutil.SetControllerReference(source, copied, c.client.Scheme())
	})
	if errors.IsConflict(err) || errors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil
	}
	if err == nil && done != controllerutil.OperationResultNone {
		c.notes.add(string(done) + " " + source.Name)
	}
	return ctrl.Result{}, err
}

func managerStory(ctx context.Context, config *rest.Config, namespace string) {
	ctrl.SetLogger(klog.NewKlogr())
	options := ctrl.Options{
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:        server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
	}
	manager, err := ctrl.NewManager(config, options)
	must(err)
	must(manager.GetFieldIndexer().IndexField(ctx, &core.ConfigMap{}, "value", func(object client.Object) []string {
		return []string{object.(*core.ConfigMap).Data["k"]}
	}))
	notes := &notes{}
	copier := &copier{client: manager.GetClient(), notes: notes}
	must(ctrl.NewControllerManagedBy(manager).For(&core.ConfigMap{}).Owns(&core.Secret{}).Complete(copier))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- manager.Start(running) }()
	<-manager.Elected()
	say("elected")

	direct, err := client.New(config, client.Options{})
	must(err)
	key := types.NamespacedName{Namespace: namespace, Name: "m"}
	source := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{"copied": "yes"}}, Data: map[string]string{"k": "1"}}
	must(direct.Create(ctx, source))
	notes.tell(ctx, 1, false)
	copied := &core.Secret{}
	must(direct.Get(ctx, key, copied))
	owner := meta.GetControllerOf(copied)
	say("a secret with k=%s, controlled by %s %s", copied.Data["k"], owner.Kind, owner.Name)

	must(direct.Get(ctx, key, source))
	source.Data["k"] = "2"
	must(direct.Update(ctx, source))
	notes.tell(ctx, 1, false)
	must(direct.Delete(ctx, copied))
	notes.tell(ctx, 1, false)
	var indexed core.ConfigMapList
	until(ctx, "the index", func() bool {
		must(manager.GetClient().List(ctx, &indexed, client.InNamespace(namespace), client.MatchingFields{"value": "2"}))
		return len(indexed.Items) == 1
	})
	say("the index finds %s", indexed.Items[0].Name)
	must(direct.Delete(ctx, source))
	notes.tell(ctx, 1, false)
	until(ctx, "the secret to go", func() bool { return errors.IsNotFound(direct.Get(ctx, key, copied)) })
	say("all gone")
	stop()
	must(<-ended)
	say("stopped")
}
